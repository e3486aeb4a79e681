"""Memory and speed of the replay, beside Stable-Baselines3's and cpprb's, in one run.

    python benchmarks/replay.py

Every replay is filled in a process of its own, of one thread, with the same experience: random
vectors of 4 numbers, and Pong as ale-py plays it with random actions (stacks of 4 frames of 84 x
84). Bytes are what the process's memory grew by, divided by the transitions kept; rates are of
drawing minibatches of 64, with the update of their priorities where there are priorities, in a
second of one core's time. ps-dqn draws several minibatches in one call, as its workers do. Where
Stable-Baselines3 or cpprb are not installed, a line says how to install them.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# One thread; set before NumPy and PyTorch are imported.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import numpy as np
from experience_tape import Tape, record

ROOT = pathlib.Path(__file__).parent.parent
BATCH_SIZE = 64
TURNS = 16  # of the tape into compressed replays, which would otherwise be too small to measure
GAMMA = 0.99
DRAWS = ("uniform", "prioritized", "recent")
# What is measured of each kind of experience: whose, how it is stored, how it is drawn.
REPLAYS = {
    "vectors": [
        *(("ps-dqn", "whole", draws) for draws in DRAWS),
        ("stable_baselines3", "whole", "uniform"),
        ("stable_baselines3", "optimize_memory_usage", "uniform"),
        ("cpprb", "whole", "uniform"),
        ("cpprb", "next_of", "uniform"),
        ("cpprb", "whole", "prioritized"),
    ],
    "Pong": [
        *(("ps-dqn", "whole", draws) for draws in DRAWS),
        *(("ps-dqn", "frames once", draws) for draws in DRAWS),
        *(("ps-dqn", "frames once, lz4", draws) for draws in DRAWS),
        ("stable_baselines3", "whole", "uniform"),
        ("stable_baselines3", "optimize_memory_usage", "uniform"),
        ("cpprb", "whole", "uniform"),
        ("cpprb", "next_of", "uniform"),
        ("cpprb", "stack_compress", "uniform"),
        ("cpprb", "next_of, stack_compress", "uniform"),
        ("cpprb", "whole", "prioritized"),
        ("cpprb", "next_of, stack_compress", "prioritized"),
    ],
}
INSTALL = {
    "ale_py": "pip install ale-py opencv-python-headless",
    "lz4": "pip install lz4",
    "stable_baselines3": "pip install torch==2.13.0, then pip install stable-baselines3",
    "cpprb": "pip install cpprb",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(REPLAYS), help="of experience")
    parser.add_argument("--vectors", type=int, default=2**17, help="transitions of vectors")
    parser.add_argument("--frames", type=int, default=2**12, help="transitions of Pong")
    parser.add_argument("--n_steps", default="1,3", help="of returns, a rate for each")
    parser.add_argument("--minibatches", type=int, default=8, help="that ps-dqn draws in one call")
    parser.add_argument("--seconds", type=float, default=0.3, help="of drawing for each rate")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*json.loads(options.one), options)))
        return
    missing = {package for package in INSTALL if importlib.util.find_spec(package) is None}
    for package in sorted(missing):
        print(f"{package} is not installed, so its part is left out: {INSTALL[package]}")
    with tempfile.TemporaryDirectory() as temporary:
        for kind in options.kinds.split(","):
            if kind == "Pong" and "ale_py" in missing:
                continue
            tape = pathlib.Path(temporary) / kind
            tape.mkdir()
            record(kind, options.vectors if kind == "vectors" else options.frames, tape)
            table(kind, tape, missing, [int(n) for n in options.n_steps.split(",")])


def table(kind: str, tape: pathlib.Path, missing: set[str], n_steps: list[int]) -> None:
    """Prints a line for each replay as soon as it is measured."""
    columns = ["stored", "drawn", "bytes/transition"]
    columns += [f"transitions/s, n={n}" for n in n_steps]
    print(f"\n| {kind}: replay | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for replay in REPLAYS[kind]:
        whose, stored, draws = replay
        if whose in missing or ("lz4" in stored and "lz4" in missing):
            continue
        results = [child(tape, replay, n_step) for n_step in n_steps]
        rates = [f"{result['rate']:,.0f}" if result else "-" for result in results]
        nbytes = next((f"{result['nbytes']:,.0f}" for result in results if result), "-")
        print(f"| {whose} | {stored} | {draws} | {nbytes} | {' | '.join(rates)} |", flush=True)


def child(tape: pathlib.Path, replay: tuple[str, str, str], n_step: int) -> dict[str, float] | None:
    """What one replay does, in a process of its own; None: it has no n-step returns so."""
    whose, stored, _ = replay
    if n_step > 1 and ("optimize" in stored or (whose == "cpprb" and "next_of" in stored)):
        return None
    command = [sys.executable, __file__, *sys.argv[1:]]
    command += ["--one", json.dumps([str(tape), replay, n_step])]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if ran.returncode:
        sys.exit(f"{replay}, n={n_step}: {ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def measure(
    folder: str, replay: tuple[str, str, str], n_step: int, options: argparse.Namespace
) -> dict[str, float]:
    """Bytes and draws per second of one replay."""
    whose, stored, draws = replay
    make = {"ps-dqn": Ours, "stable_baselines3": StableBaselines, "cpprb": Cpprb}[whose]
    # Once with little, so that what is loaded and allocated at first use does not count.
    small = make(Tape.load(pathlib.Path(folder), 60), stored, draws, n_step, options.minibatches)
    for _ in range(3):
        small.draw()
    del small
    before = own_memory()
    filled = make(Tape.load(pathlib.Path(folder)), stored, draws, n_step, options.minibatches)
    nbytes = (own_memory() - before) / filled.kept
    # The processor's time: whatever else this machine does counts little.
    drawn, started = 0, time.process_time()
    while time.process_time() - started < options.seconds:
        drawn += filled.draw()
    return {"nbytes": nbytes, "rate": drawn / (time.process_time() - started)}


def own_memory() -> int:
    """Resident memory of this process that is no file (bytes)."""
    # What was freed and is only kept for the next allocation would hide what is allocated next.
    ctypes.CDLL(None).malloc_trim(0)
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    sys.exit("this benchmark needs Linux: it reads RssAnon from /proc/self/status")


class Ours:
    """This project's replay; fills itself from a tape."""

    def __init__(self, tape: Tape, stored: str, draws: str, n_step: int, minibatches: int):
        from ps_dqn.config.capacity import Item
        from ps_dqn.replay.prioritized import Prioritized
        from ps_dqn.replay.replay import Replay
        from ps_dqn.replay.rows import Layout
        from ps_dqn.replay.samplers import Recent, Uniform

        make = {
            "uniform": Uniform,
            "prioritized": lambda: Prioritized(0.5, 0.4, 1e-3),
            "recent": lambda: Recent(0.996, 1000),
        }
        self._minibatches, first = minibatches, tape.observations[0]
        stack = first.shape[1] if "frames once" in stored else 1
        turns = TURNS if "lz4" in stored else 1
        layout = Layout(
            *(first.shape[0], turns * tape.steps, first.shape[1:], first.dtype),
            *(Item(n_step), GAMMA, stack),
            **compression(tape, turns) if "lz4" in stored else {},
        )
        self._replay = Replay(layout, make[draws](), np.random.default_rng(0))
        self._errors = np.ones((minibatches, BATCH_SIZE), np.float32)
        for _ in range(turns):
            self._add(tape)
        self.kept = self._replay.size

    def _add(self, tape: Tape) -> None:
        from ps_dqn.environments import Step

        for t in range(tape.steps):
            step = Step(
                observations=tape.observations[t],
                actions=tape.actions[t],
                rewards=tape.rewards[t],
                terminated=tape.terminated[t],
                # The end of the tape cuts episodes off.
                truncated=tape.truncated[t] | (t == tape.steps - 2),
                is_transition=~tape.resetting[t] & (t < tape.steps - 1),
                next_observations=tape.observations[t + 1],
                final_envs=np.zeros(0, np.int64),
                final_observations=tape.observations[t, :0],
            )
            self._replay.append(step)
            if t > 10 and t % 10 == 0:
                self._replay.sample(1, 1)  # brings the new priorities to their place

    def draw(self) -> int:
        self._replay.sample(self._minibatches, BATCH_SIZE)
        self._replay.update_priorities(self._errors)
        return self._errors.size


def compression(tape: Tape, turns: int) -> dict:
    """How to compress; the memory for it is what this tape's frames need on the average."""
    import lz4.block

    frames = tape.observations[::10, :, -1].reshape(-1, *tape.observations.shape[3:])
    lengths = [len(lz4.block.compress(np.array(frame), store_size=False)) for frame in frames]
    size = 8192 + statistics.mean(lengths) * tape.steps * turns  # for each environment
    return {"compression": "lz4", "arena_bytes": int(size) * tape.actions.shape[1]}


class StableBaselines:
    """Stable-Baselines3's; fills itself from a tape."""

    def __init__(self, tape: Tape, stored: str, draws: str, n_step: int, minibatches: int):
        import gymnasium
        import torch
        from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer

        torch.set_num_threads(1)
        first = tape.observations[0]
        envs, optimize = len(first), stored == "optimize_memory_usage"
        arguments = {"n_steps": n_step, "gamma": GAMMA} if n_step > 1 else {}
        self._buffer = (NStepReplayBuffer if n_step > 1 else ReplayBuffer)(
            tape.steps * envs,
            gymnasium.spaces.Box(0, 255, first.shape[1:], first.dtype),
            gymnasium.spaces.Discrete(6),
            device="cpu",
            n_envs=envs,
            optimize_memory_usage=optimize,
            handle_timeout_termination=not optimize,
            **arguments,
        )
        for t in range(tape.steps):
            done = tape.terminated[t] | tape.truncated[t]
            values = (tape.actions[t], tape.rewards[t], done, [{}] * envs)
            self._buffer.add(tape.observations[t], tape.observations[t + 1], *values)
        self.kept = self._buffer.size() * envs

    def draw(self) -> int:
        self._buffer.sample(BATCH_SIZE)
        return BATCH_SIZE


class Cpprb:
    """cpprb's; fills itself from a tape, one environment after the other as it must be."""

    def __init__(self, tape: Tape, stored: str, draws: str, n_step: int, minibatches: int):
        import cpprb

        # It wants the frames of a stack last.
        self._has_stacks = tape.observations.ndim > 3
        first = self._observation(tape, 0, 0)
        observation = {"shape": first.shape, "dtype": first.dtype}
        fields = {"obs": observation, "act": {"dtype": np.int32}, "rew": {}, "done": {}}
        options: dict = {"next_of": "obs"} if "next_of" in stored else {}
        compressed = ["obs"] if options else ["obs", "next_obs"]
        fields |= {} if options else {"next_obs": observation}
        options |= {"stack_compress": compressed} if "stack_compress" in stored else {}
        if n_step > 1:
            options["Nstep"] = {"size": n_step, "gamma": GAMMA, "rew": "rew", "next": "next_obs"}
        self._prioritized = draws == "prioritized"
        make = cpprb.PrioritizedReplayBuffer if self._prioritized else cpprb.ReplayBuffer
        self._buffer = make(tape.actions[:-1].size, fields, **options)
        self._errors = np.ones(BATCH_SIZE)
        for env in range(tape.actions.shape[1]):
            self._add(tape, env)
        self.kept = self._buffer.get_stored_size()

    def _add(self, tape: Tape, env: int) -> None:
        after = self._observation(tape, 0, env)
        for t in range(tape.steps):
            before, after = after, self._observation(tape, t + 1, env)
            done = tape.terminated[t, env] | tape.truncated[t, env]
            values = {"act": tape.actions[t, env], "rew": tape.rewards[t, env], "done": done}
            self._buffer.add(obs=before, next_obs=after, **values)
            if done or t == tape.steps - 1:
                self._buffer.on_episode_end()

    def _observation(self, tape: Tape, t: int, env: int) -> np.ndarray:
        observation = tape.observations[t, env]
        return np.moveaxis(observation, 0, -1) if self._has_stacks else observation

    def draw(self) -> int:
        drawn = self._buffer.sample(BATCH_SIZE)
        if self._prioritized:
            self._buffer.update_priorities(drawn["indexes"], self._errors)
        return BATCH_SIZE


if __name__ == "__main__":
    main()
