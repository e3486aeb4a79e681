"""How far atoms reach: as far as returns do, where rewards are known."""

import dataclasses
import math

from absl import flags as absl_flags

from ps_dqn.config import Config

# The options that say it.
ENDS = ("v_min", "v_max")

# Environments of Gymnasium in which each step pays the same: what, and for how many steps at most.
EACH_STEP = {
    "CartPole-v0": (1.0, 200),
    "CartPole-v1": (1.0, 500),
    "Acrobot-v1": (-1.0, 500),
    "MountainCar-v0": (-1.0, 200),
}
# What an episode's last step pays at worst and at best.
AT_THE_END = {"LunarLander-v3": (-100.0, 100.0)}


def open_ends(values: absl_flags.FlagValues) -> tuple[str, ...]:
    """Both ends where parsed flags say neither, so that they may follow from others; else none."""
    return () if any(values[name].present for name in ENDS) else ENDS


def derived(config: Config) -> tuple[Config, list[str]]:
    """Ends of the atoms that nobody said, from rewards that are known.

    A return is within its largest reward's 1 / (1 - gamma) times. That is taken where each step is
    known to pay the same. Where a clip alone bounds rewards, returns are mostly far smaller than
    the bound, and few atoms would lie where they are: it is taken where it is within the defaults.

    Returns:
        The experiment, and what people should know.
    """
    value, gamma, clip = config.value, config.learning.gamma, config.learning.reward_clip
    if not value.spans_returns or value.munchausen or gamma == 1:
        return config, []
    steps, paid = round(1 / (1 - gamma), 6), _each_step(config)
    if paid is not None:
        low, high = min(paid[0] * steps, 0.0), max(paid[0] * steps, 0.0)
        why = f"each step of {config.environment.env_id} pays {paid[0]:g}"
    elif clip:
        low, high = max(value.v_min, -clip * steps), min(value.v_max, clip * steps)
        why = f"rewards are within {clip:g} (--reward_clip)"
    if (paid is None and not clip) or (low, high) == (value.v_min, value.v_max):
        return config, []
    value = dataclasses.replace(value, v_min=low, v_max=high)
    return dataclasses.replace(config, value=value), [
        f"{value.value_distribution}'s atoms reach from --v_min={low:g} to --v_max={high:g}, as "
        f"{why} and --gamma={gamma:g}"
    ]


def notes(config: Config) -> list[str]:
    """What people should know of atoms that surely do not span what is to be learned."""
    value, gamma = config.value, config.learning.gamma
    reached = _returns(config)
    if not value.spans_returns or reached is None:
        return []
    low, high = reached
    if value.v_min <= low and high <= value.v_max:
        return []
    return [
        f"{value.value_distribution}'s atoms reach from --v_min={value.v_min:g} to "
        f"--v_max={value.v_max:g}, and discounted returns of {config.environment.env_id} from "
        f"{low:.4g} to {high:.4g} (--gamma={gamma:g}): say a --v_min and a --v_max around those"
    ]


def _returns(config: Config) -> tuple[float, float] | None:
    """Discounted returns that states surely have, the smallest and the largest; None: unknown."""
    environment, learning = config.environment, config.learning
    most = learning.reward_clip or math.inf
    if environment.env_id in AT_THE_END and _pays_as_known(config):
        low, high = AT_THE_END[environment.env_id]
        return max(low, -most), min(high, most)
    found = _each_step(config)
    if found is None:
        return None
    (paid, steps), gamma = found, learning.gamma
    whole = paid * (steps if gamma == 1 else (1 - gamma**steps) / (1 - gamma))
    return min(paid, whole), max(paid, whole)


def _each_step(config: Config) -> tuple[float, int] | None:
    """What each step is learned to pay, and for how many steps at most; None: unknown."""
    if config.environment.env_id not in EACH_STEP or not _pays_as_known(config):
        return None
    paid, steps = EACH_STEP[config.environment.env_id]
    most = config.learning.reward_clip or math.inf
    return max(min(paid, most), -most), steps


def _pays_as_known(config: Config) -> bool:
    """Whether nothing is there that may change what is paid."""
    return not config.environment.env_wrappers and config.environment.env_kwargs == "{}"
