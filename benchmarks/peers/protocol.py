"""What every peer's program does alike: how it is asked, evaluates and answers.

It needs Gymnasium and NumPy alone, so that it runs in each peer's own virtual environment. A
program prints one JSON line for each evaluation and one at its end.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

# Returns at which problems count as solved.
TARGETS = {
    "CartPole-v1": 475.0,
    "Acrobot-v1": -100.0,
    "MountainCar-v0": -110.0,
    "LunarLander-v3": 200.0,
}
# Environment steps that RL-Zoo's settings are made for.
STEPS = {
    "CartPole-v1": 50_000,
    "Acrobot-v1": 100_000,
    "MountainCar-v0": 120_000,
    "LunarLander-v3": 100_000,
}
IN_A_ROW = 3  # evaluations
EPISODES, BEST_EPISODES = 20, 100
# The same episodes for all; the best network plays others than it was chosen by.
EVALUATION_SEED, BEST_SEED = 10_000, 20_000

Act = Callable[[np.ndarray], np.ndarray]


def arguments() -> argparse.Namespace:
    """What `python benchmarks/peers` asks a program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env_id", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--env_steps", type=int, required=True, help="at most")
    parser.add_argument("--eval_period", type=int, required=True, help="environment steps")
    parser.add_argument("--until_solved", action="store_true", help="stop there")
    parser.add_argument("--started", type=float, required=True, help="when it was called (s)")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def episodes(env_id: str, act: Act, count: int, seed: int) -> float:
    """The mean return of the first episodes of so many environments, side by side."""
    environments = gymnasium.make_vec(env_id, num_envs=count, vectorization_mode="sync")
    observations, _ = environments.reset(seed=[seed + i for i in range(count)])
    returns, playing = np.zeros(count), np.ones(count, bool)
    while playing.any():
        observations, rewards, ended, cut, _ = environments.step(act(observations))
        returns += rewards * playing
        playing &= ~(ended | cut)
    environments.close()
    return float(returns.mean())


class Protocol:
    """The evaluations of a run.

    Args:
        options: of `arguments`.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._target = TARGETS[options.env_id]
        self._begun = time.time()
        self._eval_seconds = 0.0
        self._row = 0
        self._best = -np.inf
        self._kept: Any = None

    def evaluate(self, env_steps: int, updates: int, act: Act, keep: Callable[[], Any]) -> bool:
        """Evaluates and says so; true where the run is to end.

        Args:
            env_steps: and
            updates: so far.
            act: greedy actions for observations [batch, …].
            keep: a copy of what acts, made where it is the best so far.
        """
        options, begun = self._options, time.time()
        found = episodes(options.env_id, act, EPISODES, EVALUATION_SEED)
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
        return options.until_solved and self._row >= IN_A_ROW

    def end(self, load: Callable[[Any], Act]) -> None:
        """Plays the best network and says what it is worth.

        Args:
            load: makes what acts of what `keep` gave.
        """
        act = load(self._kept)
        said = {
            "best_of_100": episodes(self._options.env_id, act, BEST_EPISODES, BEST_SEED),
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(json.dumps(said), flush=True)
