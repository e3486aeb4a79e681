"""An environment that rests after its episode, where one is all that is wanted of it.

Environments that are stepped together begin their next episodes at once, which evaluations do not
count: until the longest has ended they would step those that have, and reset them, for nothing.
"""

from typing import Any

import gymnasium

from ps_dqn.environments import masks
from ps_dqn.environments.guard import INFO


class OneEpisode(gymnasium.Wrapper):
    """Plays one episode for each seed, and then stays where that ended; steps there pay nothing.

    An episode that a failure cut off was none: another follows it. To go around all that looks at
    an environment, so that none of it is asked either.
    """

    def __init__(self, env: gymnasium.Env):
        """Goes around an environment that reports its failures in infos, as its guard does."""
        super().__init__(env)
        self._end: tuple[Any, dict[str, Any]] | None = None  # what a reset answers while it rests

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode with a seed; without one, as vectors do of themselves, it rests on."""
        if seed is None and self._end is not None:
            return self._end
        self._end = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Acts until the episode has ended."""
        if self._end is not None:
            observation, info = self._end
            return observation, 0.0, False, False, info
        observation, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and INFO not in info:
            self._end = observation, {key: info[key] for key in (masks.KEY,) if key in info}
        return observation, reward, terminated, truncated, info
