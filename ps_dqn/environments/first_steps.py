"""What an environment's first steps are like, and whether anything can be learned from them."""

import collections
import dataclasses
import math
import time

import numpy as np
from gymnasium.vector import VectorEnv

from ps_dqn.environments import masks, specification
from ps_dqn.environments.specification import EnvironmentSpec
from ps_dqn.errors import UsageError

# First steps at most, and how long they may take (seconds).
STEPS_SEEN, SECONDS_SEEN = 10, 0.5


@dataclasses.dataclass
class Looks:
    """What an environment's first steps are like."""

    seconds: float = math.inf  # of its quickest step
    largest: float = 0.0  # size of a quantity of observations
    rewards: list[float] = dataclasses.field(default_factory=list)  # of each step


def look(env: VectorEnv, spec: EnvironmentSpec, looks: Looks, reads_masks: bool) -> None:
    """Makes the first steps.

    Args:
        env: that acts.
        spec: of it; whether there are masks shows in a reset.
        looks: what is seen goes there.
        reads_masks: masks count, if there are any.

    Raises:
        UsageError: nothing can be learned from any of them, or only steps say masks.
    """
    observations, infos = env.reset(seed=0)
    env.action_space.seed(0)
    started = time.perf_counter()
    steps, wrong, begins = 0, collections.Counter[str](), False
    while len(looks.rewards) < STEPS_SEEN and time.perf_counter() - started < SECONDS_SEEN:
        looks.largest = max(looks.largest, _largest(spec, observations))
        shown = infos if spec.has_masks else {}
        actions = masks.sample(env, shown, int(specification.actions_of(env).n))
        before = time.perf_counter()
        observations, rewards, terminated, truncated, infos = env.step(actions)
        looks.seconds = min(looks.seconds, time.perf_counter() - before)
        if reads_masks and not spec.has_masks and masks.KEY in infos:
            raise UsageError(masks.NOT_IN_RESET)
        looks.rewards.append(float(rewards[0]))
        if not begins:  # after an episode's end a step may be a reset
            steps += 1
            wrong[_what_is_wrong(spec, observations, looks.rewards[-1])] += 1
        begins = bool(terminated[0] or truncated[0])
    looks.largest = max(looks.largest, _largest(spec, observations))
    if steps and not wrong[""]:
        raise UsageError(
            f"nothing can be learned from any of its first steps ({steps}), as {' or '.join(wrong)}"
        )


def are_finite(spec: EnvironmentSpec, observations: np.ndarray) -> bool:
    """Whether all numbers of observations are, as they are kept."""
    if not spec.num_quantities:
        return True
    kept = np.asarray(observations, spec.observation_dtype)
    return bool(np.isfinite(spec.quantities(kept)).all())


def _what_is_wrong(spec: EnvironmentSpec, observations: np.ndarray, reward: float) -> str:
    """Why nothing can be learned from a step, empty where that can be."""
    if not are_finite(spec, observations):
        return "their observations are not finite in float32"
    is_kept = math.isfinite(np.float32(reward))
    return "" if is_kept else "their rewards are not finite in float32"


def _largest(spec: EnvironmentSpec, observations: np.ndarray) -> float:
    """The size of the largest quantity of an observation; 0 where it has none that is finite."""
    if not spec.num_quantities:
        return 0.0
    sizes = np.abs(spec.quantities(np.asarray(observations)))
    return float(sizes.max(where=np.isfinite(sizes), initial=0.0))
