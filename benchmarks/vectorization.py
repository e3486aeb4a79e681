"""How fast a worker's environments are stepped: Gymnasium's and ALE's forms, and EnvPool's.

Rates of one process that does nothing else, the forms in turn, so that a machine whose speed
changes changes both.

    python benchmarks/vectorization.py
"""

import argparse
import statistics
import time
import warnings

import numpy as np

from ps_dqn.config import Environment
from ps_dqn.environments import Environments

POOL = {"vectorization": "envpool"}
# By name: the usual form, EnvPool's, environments, steps of each.
CASES = {
    "LunarLander-v3": (
        Environment(env_id="LunarLander-v3"),
        Environment(env_id="LunarLander-v3", **POOL),
        32,
    ),
    "Acrobot-v1": (Environment(env_id="Acrobot-v1"), Environment(env_id="Acrobot-v1", **POOL), 32),
    "Pong": (
        Environment(env_id="ALE/Pong-v5", env_module="ale_py", frame_stack=4),
        Environment(env_id="Pong-v5", frame_stack=4, **POOL),
        8,
    ),
}


def rate(options: Environment, num_envs: int, seconds: float) -> float:
    """Environment steps a second."""
    envs, rng = Environments(options, num_envs), np.random.default_rng(0)
    envs.reset(seed=0)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        envs.step(rng.integers(envs.num_actions, size=num_envs))
        steps += num_envs
    taken = time.perf_counter() - began
    envs.close()
    return steps / taken


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each form in a round")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of spaces whose bounds lose precision
    print("| environment | usual form (steps/s) | EnvPool (steps/s) | ratio |\n|---|---|---|---|")
    for name, (usual, pool, num_envs) in CASES.items():
        pairs = [
            (rate(usual, num_envs, options.seconds), rate(pool, num_envs, options.seconds))
            for _ in range(options.rounds)
        ]
        ratios = sorted(second / first for first, second in pairs)
        usual_rate, pool_rate = (statistics.median(each) for each in zip(*pairs, strict=True))
        print(
            f"| {name} | {usual_rate:,.0f} | {pool_rate:,.0f} | {statistics.median(ratios):.1f} "
            f"({ratios[0]:.1f} to {ratios[-1]:.1f}) |"
        )


if __name__ == "__main__":
    main()
