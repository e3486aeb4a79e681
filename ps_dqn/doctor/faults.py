"""What broke: tasks, environments, the run itself."""

import math

from ps_dqn.config.faults import ANSWER_SECONDS, ENV_FAILURES, LEAST_SECONDS
from ps_dqn.doctor.patient import CUT_OFF, Finding, Patient, number, rounded
from ps_dqn.run import directory


def cut_off(patient: Patient) -> Finding | None:
    """It has not ended by itself."""
    if patient.state != CUT_OFF:
        return None
    why = f"; {patient.last_words}" if patient.last_words else "; no log says why: it was killed"
    path = patient.run.path
    how, expect = f"--resume --run_dir={path}", "it goes on from its newest checkpoint"
    if not patient.can_go_on:
        how = f"--flagfile={path / directory.FLAGFILE}"
        expect = "it has left no checkpoint, so this is another run with the same flags"
    return Finding(
        "cut_off",
        f"it ended after {patient.env_steps:,.0f} env steps without a word of its end{why}",
        f"ps-dqn train {how}",
        expect,
    )


def environments_fail(patient: Patient) -> Finding | None:
    """Steps that nothing is learned from."""
    failures = {kind: patient.total(f"env_failures/{kind}") for kind in ENV_FAILURES}
    total = sum(failures.values())
    if not total:
        return None
    shown = ", ".join(f"{kind} {count:,.0f} times" for kind, count in failures.items() if count)
    worst = max(failures, key=lambda kind: failures[kind])
    if worst == "hung":
        timeout = patient.config.environment.env_timeout
        change = f"--env_timeout={rounded(2 * timeout)}"
        expect = "steps that only take long are waited for; one that hangs costs more time"
    elif patient.failure_file:
        change = f"ps-dqn reproduce {patient.failure_file}"
        expect = "the failure, once more, with its traceback: mend the environment"
    else:
        change = "--vectorization=async"
        expect = "an environment that fails takes no other one of its worker along"
    return Finding("environments_fail", f"environments failed: {shown}", change, expect)


def tasks_fail(patient: Patient) -> Finding | None:
    """Tasks were lost, or did not answer."""
    rows = (patient.run.summary or {}).get("task_failures") or []
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["kind"]] = counts.get(row["kind"], 0) + row["failures"]
    if not counts:
        return None
    tasks = ", ".join(sorted({row["task"] for row in rows}))
    shown = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    seen = f"failures of tasks ({tasks}): {shown}"
    if max(counts, key=lambda kind: counts[kind]) == "lost":
        return Finding(
            "tasks_fail",
            f"{seen}; what is killed again and again mostly has no memory left",
            "--replay_memory=25%",
            "each worker's replay takes a quarter of its part of the machine",
        )
    faults = patient.config.faults
    if all(row["task"].startswith("parameter server") for row in rows):
        change = f"--ps_timeout={rounded(2 * faults.ps_timeout)}"
    else:
        timeout = faults.worker_timeout or max(ANSWER_SECONDS, LEAST_SECONDS)
        change = f"--worker_timeout={rounded(2 * timeout)}"
    return Finding("tasks_fail", seen, change, "tasks that are only slow are not given up")


def updates_lost(patient: Patient) -> Finding | None:
    """Learning was lost with a parameter server."""
    lost, period = patient.summary("updates_lost"), patient.config.faults.snapshot_period
    if not lost:
        return None
    recoveries = number(patient.summary("recoveries"))
    if not patient.config.parameter_server.has_servers:
        period = patient.config.run.checkpoint_period
        return Finding(
            "updates_lost",
            f"{number(lost)} updates were lost with all workers at once ({recoveries} recoveries)",
            f"--checkpoint_period={rounded(period / 5 if math.isfinite(period) else 60)}",
            "workers go on from a newer checkpoint",
        )
    return Finding(
        "updates_lost",
        f"{number(lost)} updates were lost with parameter servers ({recoveries} recoveries)",
        f"--snapshot_period={rounded(period / 5 if period else 5)}",
        "servers go on from a newer snapshot",
    )


RULES = (cut_off, environments_fail, tasks_fail, updates_lost)
