"""What a worker counts of its environments for `moments`: quantities seen, and returns."""

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, Step
from ps_dqn.moments import Moments


class Following:
    """Of one worker's environments."""

    def __init__(self, config: Config, spec: EnvironmentSpec):
        """Counts what the options want."""
        self._spec, self._gamma = spec, config.learning.gamma
        is_wanted = config.network.normalize_observations == "on"
        self._observed = spec.num_quantities if is_wanted else 0
        self._has_returns = config.value.normalize_returns == "on"
        # Σ γ^k of the rewards so far, the last one whole.
        self._returns = np.zeros(config.environment.envs_per_worker)

    def nothing(self) -> Moments:
        """Of no step."""
        return Moments(self._observed + self._has_returns)

    def see(self, step: Step, seen: Moments) -> None:
        """Counts a step.

        Args:
            step: with the rewards that the network hears of.
            seen: to count it in.
        """
        is_real, whose = step.is_transition, step.whose
        rows = []
        if self._observed:
            rows.append(self._spec.quantities(step.observations[is_real]))
        if self._has_returns:
            returns = self._returns[whose]
            returns[is_real] = self._gamma * returns[is_real] + step.rewards[is_real]
            self._returns[whose] = returns
            rows.append(returns[is_real, None])
            self._returns[step.ended_envs] = 0
            self._returns[step.failed_envs] = 0
        if rows:
            seen.add(np.concatenate(rows, axis=1))
