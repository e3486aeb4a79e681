"""One run of a program: asked, watched, and what it says as one row."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from installing import Unavailable
from known import Peer
from protocol import IN_A_ROW, TARGETS
from watching import Watch, end

FOLDER = pathlib.Path(__file__).parent
# What a program may take beside what it is asked for: imports, compiling, evaluations.
PATIENCE = 900.0
SCORES = (
    *("env_steps", "updates", "seconds", "eval_seconds", "eval_return"),
    *("solved_env_steps", "solved_seconds", "solved_command_seconds"),
    *("best_of_100", "megabytes", "load"),
    # Added later: files that were written before have them empty.
    *("solved_updates", "solved_eval_seconds", "start_seconds", "compile_seconds"),
    *("updates_per_second", "env_steps_per_second", "peak_megabytes", "cpu_seconds"),
    *("load_after", "max_seconds", "unavailable"),
)
RATES = (
    *("env_steps_per_second", "updates_per_second", "measured_seconds", "bytes_per_transition"),
    *("peak_megabytes", "cpu_seconds", "load", "load_after", "unavailable"),
)


class Asked(NamedTuple):
    """What a program is asked for."""

    env_id: str
    seed: int
    env_steps: int
    eval_period: int
    until_solved: bool = False
    max_seconds: float = float("inf")
    rate_seconds: float = 0.0


def program(peer: Peer, python: str, asked: Asked) -> list[str]:
    """The command."""
    return [
        *(python, str(FOLDER / peer.script), f"--env_id={asked.env_id}", f"--seed={asked.seed}"),
        *(f"--env_steps={asked.env_steps}", f"--eval_period={asked.eval_period}"),
        *(["--until_solved"] if asked.until_solved else []),
        *(f"--max_seconds={asked.max_seconds}", f"--rate_seconds={asked.rate_seconds}"),
        *(f"--threads={peer.threads}", f"--started={time.time()}", *peer.options),
    ]


def measure(peer: Peer, python: str, asked: Asked) -> dict[str, object]:
    """One run: the measured part of a row.

    Raises:
        Unavailable: the program did not do it.
    """
    threads = str(peer.threads)
    limits = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads} if peer.packages else {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            program(peer, python, asked),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | limits,
        )
        watch = Watch(process)
        # Its clock is of training: what is meant here is a program that does not come back.
        longest = min(asked.max_seconds, 6 * 3600) + asked.rate_seconds + PATIENCE
        late = threading.Timer(longest, end, [process])
        late.start()
        assert process.stdout is not None
        try:
            lines = list(heard(process.stdout))
            process.wait()
        finally:
            late.cancel()
            watch.close()
            end(process)
            process.stdout.close()
        if process.returncode or not lines:
            errors.seek(0)
            said = errors.read().strip().splitlines() or ["nothing"]
            raise Unavailable(f"exit code {process.returncode}: {said[-1]}")
    row = lines[0] if asked.rate_seconds else scores(asked, lines)
    return row | {
        "peak_megabytes": watch.peak_bytes / 2**20,
        "cpu_seconds": watch.seconds,
        "load": load,
        "load_after": os.getloadavg()[0],
    }


def heard(output: Iterable[str]) -> Iterator[dict[str, float]]:
    """What a program says, while people hear of its evaluations."""
    for line in output:
        if line.startswith("{"):
            said = json.loads(line)
            if "eval_return" in said:
                where = f"{said['env_steps']:,} env steps, {said['seconds']:,.0f} s"
                print(f"  {where}: {said['eval_return']:.1f}", file=sys.stderr, flush=True)
            yield said


def scores(asked: Asked, lines: list[dict[str, float]]) -> dict[str, object]:
    """What a program said of its evaluations, and whether three in a row reached the target."""
    *said, last = lines
    row: dict[str, object] = {"max_seconds": asked.max_seconds}
    target = TARGETS[asked.env_id]
    for i in range(IN_A_ROW, len(said) + 1):
        if all(each["eval_return"] >= target for each in said[i - IN_A_ROW : i]):
            names = ("env_steps", "updates", "seconds", "eval_seconds", "command_seconds")
            row |= {f"solved_{name}": said[i - 1][name] for name in names}
            break
    if said:
        row["start_seconds"] = said[0]["command_seconds"] - said[0]["seconds"]
        row |= learning_rates(said)
    known = (said[-1] if said else {}) | last
    return row | {name: known[name] for name in SCORES if name in known and name not in row}


def learning_rates(said: list[dict[str, float]]) -> dict[str, float]:
    """Steps and updates a second, from the first evaluation after updates to the last one."""
    learning = [each for each in said if each["updates"]]
    if len(learning) < 2:
        return {}
    first, last = learning[0], learning[-1]
    seconds = last["seconds"] - first["seconds"] - last["eval_seconds"] + first["eval_seconds"]
    if seconds <= 0:
        return {}
    return {
        f"{name}_per_second": (last[name] - first[name]) / seconds
        for name in ("env_steps", "updates")
    }
