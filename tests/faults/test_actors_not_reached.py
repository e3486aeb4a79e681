"""Actors that are never there, or that cannot do what they are for: whoever trains hears of it."""

import json
import pathlib
import re

import pytest
from support import processes as real
from support import remote_tasks
from support.going_on import trains_on, updates
from support.processes import Processes

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import Task

pytestmark = pytest.mark.slow
TESTS = pathlib.Path(__file__).parents[1]
FLAGS = (
    "--topology=seed",
    "--num_envs=8",
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--target_return=inf",
    "--eval_period=600000",
    "--total_env_steps=100000000",
    "--metrics_period=2000",
    "--log_interval=0.2",
)


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ("made", "--env_id=tests/Unlicensed-v0: cannot be made (RuntimeError: no licence"),
        ("begun", "its environments do not begin: RuntimeError: no licence for what is begun; "),
    ],
)
def test_environments_that_do_not_begin_at_an_actor_end_the_run_with_a_line(
    processes: Processes, tmp_path: pathlib.Path, when: str, says: str
) -> None:
    kwargs = json.dumps({"when": when, "module": "ps_dqn.actor"})
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *FLAGS, "--start_method=spawn"),
        *("--env_module=support.unlicensed_env", "--env_id=tests/Unlicensed-v0"),
        f"--env_kwargs={kwargs}",
        PYTHONPATH=str(TESTS),
    )
    assert running.ended(240) == 2, running.text
    [line] = [line for line in running.lines if line.startswith("error: ")]
    assert line.startswith("error: actor at localhost:")
    assert says in line
    assert "Traceback" not in running.text
    processes.all_gone(15)


def test_an_actor_of_others_that_is_not_reached_is_named_until_it_is(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    spec = ports.on_this_machine(1, 1, 0, 2)
    hosts, start = remote_tasks.hosts(spec), remote_tasks.starting(processes, spec)
    late = Task("actor", 1)
    tasks = {task: start(task) for task in spec.all_tasks() if task != late}
    words = ("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *hosts, *FLAGS)
    running = processes.start(*words)

    missing = "learner 0 has 1 of 2 actors: "
    line = running.line_with(missing, 300)
    found = re.fullmatch(
        rf".*{missing}actor 1 at {spec.actors[1]} has not joined for (\d+) s; the log of worker 0 "
        r"says more",
        line,
    )
    assert found, line
    assert int(found[1]) >= 30
    trains_on(running, updates(running) + 100)
    unreached = f"the actor at {spec.actors[1]} cannot be reached: "
    assert tasks[Task("worker", 0)].count(unreached) == 1

    start(late)

    there = "learner 0 has 2 of 2 actors"
    running.line_with(there, 120)
    trains_on(running, updates(running) + 100)
    assert (running.count(missing), running.count(there)) == (1, 1)
    log = tasks[Task("worker", 0)]
    real.until(lambda: log.count(f"{spec.actors[1]} is reached") == 1, 60, log.text)
    assert log.count(unreached) == 1
