"""What is normalized where nobody says so: what an environment shows and pays in large numbers."""

import contextlib
import dataclasses
import math
import statistics

from ps_dqn.config import Config
from ps_dqn.config.agent import LARGE, ON_ATOMS
from ps_dqn.environments.first_steps import Looks
from ps_dqn.errors import UsageError


def settle(config: Config, looks: Looks) -> Config:
    """Settles what is auto of `--normalize_observations` and `--normalize_returns`.

    Args:
        config: the experiment.
        looks: what the environment's first steps are like.
    """
    clip, value = config.learning.reward_clip, config.value
    sizes = [min(abs(each), clip or math.inf) for each in looks.rewards if math.isfinite(each)]
    pays_much = bool(sizes) and statistics.fmean(sizes) > LARGE
    # These say by themselves what size values have.
    is_free = value.value_distribution not in ON_ATOMS and not value.value_rescaling
    config = _chosen(config, "network", "normalize_observations", looks.largest > LARGE)
    return _chosen(config, "value", "normalize_returns", pays_much and is_free)


def _chosen(config: Config, topic: str, name: str, is_wanted: bool) -> Config:
    """With an option that is auto turned on, where wanted and nothing is in the way, or off."""
    options = getattr(config, topic)
    if getattr(options, name) != "auto":
        return config
    if is_wanted:
        with contextlib.suppress(UsageError):  # of an optimizer, say, that would change the means
            return dataclasses.replace(
                config, **{topic: dataclasses.replace(options, **{name: "on"})}
            )
    return dataclasses.replace(config, **{topic: dataclasses.replace(options, **{name: "off"})})
