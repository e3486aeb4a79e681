"""What every peer's program does alike: how it is asked, evaluates and answers.

It needs Gymnasium and NumPy alone, so that it runs in each peer's own virtual environment. A
program prints one JSON line for each evaluation and one at its end. Asked for rates, it prints one
line at all (`rates.py`).
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

PONG = "ALE/Pong-v5"
# Returns at which problems count as solved.
TARGETS = {
    "CartPole-v1": 475.0,
    "Acrobot-v1": -100.0,
    "MountainCar-v0": -110.0,
    "LunarLander-v3": 200.0,
    PONG: 18.0,
}
# Environment steps that RL-Zoo's settings are made for.
STEPS = {
    "CartPole-v1": 50_000,
    "Acrobot-v1": 100_000,
    "MountainCar-v0": 120_000,
    "LunarLander-v3": 100_000,
    PONG: 10_000_000,
}
IN_A_ROW = 3  # evaluations
EPISODES, BEST_EPISODES = 20, 100
# As many as ours plays: an episode has a thousand steps and more.
PONG_EPISODES = 5
# The same episodes for all; the best network plays others than it was chosen by.
EVALUATION_SEED, BEST_SEED = 10_000, 20_000

Act = Callable[[np.ndarray], np.ndarray]


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """What `python benchmarks/peers` asks a program.

    Args:
        words: of the command line; None: this process's.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--env_id", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--env_steps", type=int, required=True, help="at most")
    parser.add_argument("--eval_period", type=int, required=True, help="environment steps")
    parser.add_argument("--until_solved", action="store_true", help="stop there")
    parser.add_argument("--max_seconds", type=float, default=np.inf, help="of training")
    parser.add_argument("--rate_seconds", type=float, default=0.0, help="measure rates, so long")
    parser.add_argument("--started", type=float, required=True, help="when it was called (s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="of ours")
    parser.add_argument("--preset", default="", help="of ours, before the problem's")
    parser.add_argument("--cold", action="store_true", help="of ours, with nothing compiled")
    return parser.parse_args(words)


def episodes(env_id: str, act: Act, count: int, seed: int) -> float:
    """The mean return of the first episodes of so many environments, side by side."""
    environments = _environments(env_id, count)
    observations, _ = environments.reset(seed=[seed + i for i in range(count)])
    returns, playing = np.zeros(count), np.ones(count, bool)
    while playing.any():
        observations, rewards, ended, cut, _ = environments.step(act(observations))
        returns += rewards * playing
        playing &= ~(ended | cut)
    environments.close()
    return float(returns.mean())


def _environments(env_id: str, count: int) -> gymnasium.vector.VectorEnv:
    if env_id != PONG:
        return gymnasium.make_vec(env_id, num_envs=count, vectorization_mode="sync")
    import frames  # not every peer has ale-py

    return gymnasium.vector.SyncVectorEnv([lambda: frames.make(env_id, scored=True)] * count)


class Protocol:
    """The evaluations of a run. What makes it is about to make its first environment step.

    Args:
        options: of `arguments`.
        compile_seconds: what was compiled before, ahead of the first environment step.
    """

    def __init__(self, options: argparse.Namespace, compile_seconds: float = 0.0) -> None:
        self._options = options
        self._target = TARGETS[options.env_id]
        self._begun = time.time()
        self._compile_seconds = compile_seconds
        self._eval_seconds = 0.0
        self._next = options.eval_period
        self._row = 0
        self._best = -np.inf
        self._kept: Any = None

    def due(self, env_steps: int) -> bool:
        """Whether an evaluation is."""
        if env_steps < self._next:
            return False
        self._next += self._options.eval_period
        return True

    def evaluate(self, env_steps: int, updates: int, act: Act, keep: Callable[[], Any]) -> bool:
        """Evaluates and says so; true where the run is to end.

        Args:
            env_steps: and
            updates: so far.
            act: greedy actions for observations [batch, …].
            keep: a copy of what acts, made where it is the best so far.
        """
        options, begun = self._options, time.time()
        count = PONG_EPISODES if options.env_id == PONG else EPISODES
        found = episodes(options.env_id, act, count, EVALUATION_SEED)
        if found > self._best:
            self._best, self._kept = found, keep()
        now = time.time()
        self._eval_seconds += now - begun
        self._row = self._row + 1 if found >= self._target else 0
        said = {
            "env_steps": env_steps,
            "updates": updates,
            "seconds": now - self._begun,
            "eval_seconds": self._eval_seconds,
            "command_seconds": now - options.started,
            "eval_return": found,
        }
        print(json.dumps(said), flush=True)
        is_late = now - self._begun - self._eval_seconds >= options.max_seconds
        return is_late or (options.until_solved and self._row >= IN_A_ROW)

    def end(self, load: Callable[[Any], Act]) -> None:
        """Plays the best network, unless the run was for time alone, and says what it is worth.

        Args:
            load: makes what acts of what `keep` gave.
        """
        said = {
            "compile_seconds": self._compile_seconds,
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        if self._kept is not None and not self._options.until_solved:
            act = load(self._kept)
            said["best_of_100"] = episodes(self._options.env_id, act, BEST_EPISODES, BEST_SEED)
        print(json.dumps(said), flush=True)
