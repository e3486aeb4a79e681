"""Stable-Baselines3's DQN as its users run it: with RL-Zoo's settings."""

import argparse
import copy
from typing import Any

import numpy as np
import torch
from protocol import PONG, STEPS, Act, Protocol, arguments
from rates import SAME, Rates, judge
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

# rl-baselines3-zoo, hyperparams/dqn.yml (22e3ff2).
_LANDER = {
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "gamma": 0.99,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
}
SETTINGS = {
    "CartPole-v1": {
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
    },
    "Acrobot-v1": _LANDER,
    "MountainCar-v0": {
        "learning_rate": 4e-3,
        "batch_size": 128,
        "buffer_size": 10_000,
        "learning_starts": 1000,
        "gamma": 0.98,
        "target_update_interval": 600,
        "train_freq": 16,
        "gradient_steps": 8,
        "exploration_fraction": 0.2,
        "exploration_final_eps": 0.07,
    },
    "LunarLander-v3": _LANDER,
    PONG: {
        "learning_rate": 1e-4,
        "batch_size": 32,
        "buffer_size": 100_000,
        "learning_starts": 100_000,
        "target_update_interval": 1000,
        "train_freq": 4,
        "gradient_steps": 1,
        "exploration_fraction": 0.1,
        "exploration_final_eps": 0.01,
    },
}


class Evaluating(BaseCallback):
    """Asks after each step whether it is time to evaluate."""

    def __init__(self, protocol: Protocol | Rates) -> None:
        super().__init__()
        self._protocol = protocol

    def _on_step(self) -> bool:
        if not self._protocol.due(self.num_timesteps):
            return True
        model = self.model
        return not self._protocol.evaluate(
            self.num_timesteps,
            model._n_updates,
            acting(model.q_net),
            lambda: copy.deepcopy(model.q_net.state_dict()),
        )


def acting(network: torch.nn.Module) -> Act:
    def act(observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.as_tensor(observations)).argmax(dim=1).numpy()

    return act


def same_as_all(options: argparse.Namespace) -> dict[str, Any]:
    """What the mode of rates asks for."""
    same = SAME[options.env_id]
    frames = options.env_id == PONG  # whose network has one layer behind its convolutions
    return {
        "policy": "CnnPolicy" if frames else "MlpPolicy",
        "env": atari(options) if frames else options.env_id,
        "policy_kwargs": {} if frames else {"net_arch": list(same.hidden)},
        "learning_rate": same.learning_rate,
        "batch_size": same.batch_size,
        "buffer_size": same.capacity,
        "learning_starts": same.learning_starts,
        "train_freq": same.update_period,
        "gradient_steps": 1,
    }


def atari(options: argparse.Namespace) -> Any:
    """Its own wrappers, as RL-Zoo has them, and ours' game: no action is repeated by chance."""
    import ale_py
    import gymnasium
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gymnasium.register_envs(ale_py)
    game = {"frameskip": 1, "repeat_action_probability": 0.0}
    return VecFrameStack(make_atari_env(options.env_id, seed=options.seed, env_kwargs=game), 4)


def zoo(options: argparse.Namespace) -> dict[str, Any]:
    """RL-Zoo's settings."""
    settings = dict(SETTINGS[options.env_id])
    # Exploration falls within the same steps, however long the run may be.
    settings["exploration_fraction"] *= STEPS[options.env_id] / options.env_steps
    if options.env_id == PONG:
        return {"policy": "CnnPolicy", "env": atari(options)} | settings
    network = {"net_arch": [256, 256]}
    return {"policy": "MlpPolicy", "env": options.env_id, "policy_kwargs": network} | settings


def kept_bytes(replay: Any) -> float:
    """What its replay takes for a transition."""
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    found = [getattr(replay, name, None) for name in names]
    return sum(each.nbytes for each in found if each is not None) / replay.buffer_size


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    settings = same_as_all(options) if options.rate_seconds else zoo(options)
    model = DQN(seed=options.seed, device="cpu", **settings)
    protocol = judge(options)
    model.learn(options.env_steps, callback=Evaluating(protocol))

    def load(state: dict) -> Act:
        model.q_net.load_state_dict(state)
        return acting(model.q_net)

    if isinstance(protocol, Rates):
        protocol.end(load, kept_bytes(model.replay_buffer))
    else:
        protocol.end(load)


if __name__ == "__main__":
    main()
