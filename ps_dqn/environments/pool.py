"""EnvPool's environments: many at once in C++ (Weng et al. 2022, arXiv:2206.10558).

Shapes: E environments.
"""

import difflib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ps_dqn.config import Environment
from ps_dqn.environments import listed
from ps_dqn.errors import UsageError, needs_extra

FLAG = "--vectorization=envpool"


class Pool(VectorEnv):
    """A pool as a vector of Gymnasium's; a seed makes another one, for pools are seeded once."""

    def __init__(self, env_id: str, num_envs: int, kwargs: dict[str, Any]):
        """Makes E = `num_envs` environments of EnvPool's name `env_id`."""
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = num_envs
        self._what = {"task_id": env_id, "env_type": "gymnasium", "num_envs": num_envs, **kwargs}
        self._pool = _make(self._what)
        # Their own classes of spaces are Gymnasium's.
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        is_list = isinstance(self.single_action_space, gymnasium.spaces.Discrete)
        self._action_dtype = np.int32 if is_list else self.single_action_space.dtype
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        threshold = dict(self._pool.config).get("reward_threshold")
        self.spec = EnvSpec(env_id, reward_threshold=threshold)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins all episodes, reproducibly where a seed is given."""
        if seed is not None:
            self._pool.close()
            self._pool = _make({**self._what, "seed": int(seed)})
        return self._pool.reset()

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        """Acts; an episode that has ended begins anew with the step after."""
        return self._pool.step(actions.astype(self._action_dtype))

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads."""
        self._pool.close()


def make(config: Environment, num_envs: int, kwargs: dict[str, Any]) -> Pool:
    """Makes a pool.

    Args:
        config: which environment.
        num_envs: E.
        kwargs: of EnvPool's environment.

    Raises:
        UsageError: EnvPool is not there, or has no such environment, or a DQN cannot act in it
            without a wrapper.
    """
    try:
        import envpool
    except ImportError:
        raise needs_extra(FLAG, "envpool", "envpool") from None
    known = envpool.list_all_envs()
    if config.env_id not in known:
        near = difflib.get_close_matches(config.env_id.rpartition("/")[2], known, 3, 0.5)
        advice = f" (it has {', '.join(near)})" if near else ""
        raise UsageError(
            f"--env_id={config.env_id}: EnvPool has none of this name{advice}: say one that it "
            f"has, or leave out {FLAG}"
        )
    if config.env_wrappers:
        raise UsageError(
            f"--env_wrappers={config.env_wrappers}: EnvPool's environments are not in Python and "
            f"cannot be wrapped: leave it out, or {FLAG}"
        )
    pool = Pool(config.env_id, num_envs, kwargs)
    try:
        _check(config, pool)
    except UsageError:
        pool.close()
        raise
    return pool


def _make(what: dict[str, Any]) -> Any:
    import envpool

    return envpool.make(**what)


def _check(config: Environment, pool: Pool) -> None:
    observations, actions = pool.single_observation_space, pool.single_action_space
    if not isinstance(observations, gymnasium.spaces.Box):
        raise UsageError(
            f"--env_id={config.env_id}: its observations are {observations}, which EnvPool gives "
            f"only as they are: leave out {FLAG}"
        )
    listed.wrappers(config.env_id, actions, config.action_bins, config.branching)  # or it raises
    frames, shape = config.frame_stack, observations.shape
    if frames > 1 and len(shape) >= 3 and shape[0] != frames:  # games stack by themselves
        raise UsageError(
            f"--frame_stack={frames}: EnvPool's observations here have the shape {shape}: say "
            f"--env_kwargs='{{\"stack_num\": {frames}}}', where the environment has that, or leave "
            f"one of both out"
        )
