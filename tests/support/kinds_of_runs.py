"""Folders of runs that were never trained, of many kinds of environments and networks."""

import copy
import pathlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.environments import interface
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters, State
from support.option_values import A3C

MODULE = "support.kinds_of_runs"
PARTS = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (6, 5, 3), np.uint8),
        "arm": spaces.Dict({"speed": spaces.Box(-9, 9, (2,), np.float64)}),
        "cell": spaces.Discrete(4, start=1),
        "door": spaces.MultiBinary(2),
        "tools": spaces.MultiDiscrete([[2, 3]], start=[[5, 0]]),
    }
)
OBSERVATIONS: dict[str, spaces.Space] = {
    "vector": spaces.Box(-9, 9, (4,), np.float32),
    "image": spaces.Box(0, 255, (7, 6), np.uint8),
    "screen": spaces.Box(0, 255, (36, 36), np.uint8),
    "thing": spaces.Discrete(5, start=-2),
    "parts": PARTS,
    "tuple": spaces.Tuple([spaces.Box(-1, 1, (), np.float32), spaces.Discrete(3)]),
    "either": spaces.OneOf([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)]),
}
ACTIONS: dict[str, spaces.Space] = {
    "list": spaces.Discrete(3, start=2),
    "two": spaces.MultiDiscrete([2, 3], start=[1, 0]),
    "buttons": spaces.MultiBinary(3),
    "number": spaces.Box(-1, 2, (), np.float32),
    "box": spaces.Box(np.float32([-1, 0]), np.float32([1, 3]), dtype=np.float32),
}


class Shown(gymnasium.Env):
    """Random observations that its actions do not touch, and rewards that tell the action."""

    def __init__(self, observation: str = "vector", action: str = "list", masked: bool = False):
        self.observation_space = copy.deepcopy(OBSERVATIONS[observation])
        self.action_space = ACTIONS[action]
        self._masked, self._steps = masked, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), self._info()

    def step(self, action: Any):
        self._steps += 1
        reward = float(np.sum(np.asarray(action, np.float64)))
        observation = self.observation_space.sample()
        return observation, reward, self._steps >= 6, False, self._info()

    def _info(self) -> dict[str, Any]:
        if not self._masked:
            return {}
        return {"action_mask": np.arange(3) != (self._steps % 4)}


BASE: dict[str, Any] = {
    "env_id": f"{MODULE}:Shown",
    "hidden_sizes": (16, 8),
    "layer_norm": True,
    "value_distribution": "none",
    "eval_epsilon": 0.0,
}


def shown(observation: str = "vector", action: str = "list", masked: str = "false") -> str:
    words = f'"observation": "{observation}", "action": "{action}", "masked": {masked}'
    return "{" + words + "}"


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "wide": {"hidden_sizes": (120, 84)},
    "double_precision_parts": {"env_kwargs": shown("parts")},
    "parts_and_images": {"env_kwargs": shown("parts"), "network": "minatar"},
    "tuple": {"env_kwargs": shown("tuple")},
    "one_of": {"env_kwargs": shown("either")},
    "thing": {"env_kwargs": shown("thing")},
    "stacked_images": {"env_kwargs": shown("image"), "network": "minatar", "frame_stack": 3},
    "stacked_parts": {"env_kwargs": shown("parts"), "frame_stack": 2},
    "nature": {"env_kwargs": shown("screen"), "network": "nature", "frame_stack": 2},
    "impala": {
        **{"env_kwargs": shown("image"), "network": "impala", "network_width": 0.25},
        **{"frame_stack": 2, "spectral_norm": True, "pooled_size": 2, "dueling": True},
    },
    "recurrent": {"recurrent_size": 5, "reward_clip": 1.0, "normalize_returns": "on"},
    "masks": {"env_kwargs": shown(masked="true")},
    "grid": {"env_kwargs": shown(action="box"), "action_bins": 4},
    "grid_of_one": {"env_kwargs": shown(action="number"), "action_bins": 4},
    "combinations": {"env_kwargs": shown(action="two"), "dueling": True},
    "branching": {"env_kwargs": shown(action="two"), "branching": True, "dueling": True},
    "branching_grid": {
        **{"env_kwargs": shown(action="box"), "action_bins": 5, "branching": True},
    },
    "buttons": {"env_kwargs": shown(action="buttons")},
    "normalized": {"normalize_observations": "on", "env_kwargs": shown("parts")},
    "c51": {"value_distribution": "c51", "num_atoms": 7},
    "hl_gauss": {"value_distribution": "hl_gauss", "num_atoms": 7},
    "qr_dqn": {"value_distribution": "qr_dqn", "num_quantiles": 5, "dueling": True},
    "iqn": {"value_distribution": "iqn", "num_policy_quantiles": 6, "num_cosines": 8},
    "a3c": {**A3C, "env_kwargs": shown(masked="true")},
    "noisy": {"noisy": True, "value_distribution": "c51"},
    "of_a_user": {
        **{"network": "support.user_networks:of_parts", "env_kwargs": shown("parts")},
        **{"hidden_sizes": (128, 128)},
    },
}


def config(kind: str, **values: Any) -> Config:
    return Config.from_values(BASE | KINDS[kind] | values)


def folder(config: Config, path: pathlib.Path, has_interface: bool = True) -> pathlib.Path:
    """The folder of a run whose best and newest parameters are random numbers."""
    (path / "checkpoints").mkdir(parents=True)
    (path / "logs").mkdir()
    spec = environments.describe(config.environment)
    if has_interface:
        interface.write(path, interface.of(config, spec))
    network = networks.build(config.network, config.value, spec, config.run.seed)
    checkpoints = Checkpoints(path / "checkpoints", keep=1)
    checkpoints.save_best(state(network, 1), 1.0, 200.0)
    checkpoints.save_newest(state(network, 2), 2.0)
    return path


def state(network: Any, seed: int) -> State:
    """Whose average alone is worth anything."""
    noise = np.random.default_rng(seed).normal(0, 0.3, network.num_parameters)
    average = (network.initial + noise).astype(np.float32)
    nothing = np.zeros_like(average)
    return State(nothing, nothing, average, (), Counters(3, 6, 4321, 2, 6))
