"""Which episodes have discounted returns that `v_min` and `v_max` do not span.

They are looked at from every step: a reward that comes late is small from an episode's start, and
yet larger than the atoms from the steps before it.
"""

import numpy as np

from ps_dqn.environments import Step

# Of an episode the last steps, so many, are looked at.
MOST = 10_000
# Of these steps, more than this share with returns outside are no few at the end.
SHARE = 0.1


class OutsideAtoms:
    """Follows the episodes of one worker's environments."""

    def __init__(self, num_envs: int, gamma: float, low: float, high: float):
        """Has seen no step.

        Args:
            num_envs: E.
            gamma: discount per environment step.
            low: smallest return that is inside.
            high: largest one.
        """
        self._gamma, self._low, self._high = gamma, low, high
        self._rewards = np.zeros((num_envs, MOST))  # step i of an episode at i % MOST
        self._steps = np.zeros(num_envs, np.int64)  # of each episode so far
        self._every_env = np.arange(num_envs)

    def see(self, step: Step) -> int:
        """Takes a step; how many episodes end with it that leave the atoms for long.

        Args:
            step: with the rewards that the network hears of.
        """
        whose = self._every_env[step.whose][step.is_transition]
        self._rewards[whose, self._steps[whose] % MOST] = step.rewards[step.is_transition]
        self._steps[whose] += 1
        ended = step.ended_envs
        outside = sum(map(self._is_outside, ended.tolist()))
        for begins_anew in (ended, step.failed_envs):
            self._steps[begins_anew] = 0
        return outside

    def _is_outside(self, env: int) -> bool:
        """Whether the returns from more than `SHARE` of the episode's steps are."""
        steps = int(self._steps[env])
        rewards = self._rewards[env, :steps]
        if steps > MOST:
            rewards = np.roll(rewards, -steps)
        outside, reached = 0, 0.0
        for reward in reversed(rewards.tolist()):
            reached = reward + self._gamma * reached
            outside += not self._low <= reached <= self._high
        return outside > SHARE * len(rewards)
