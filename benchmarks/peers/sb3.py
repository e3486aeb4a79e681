"""Stable-Baselines3's DQN as its users run it: with RL-Zoo's settings."""

import copy

import numpy as np
import torch
from protocol import STEPS, Act, Protocol, arguments
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
}


class Evaluating(BaseCallback):
    """Evaluates every so many steps."""

    def __init__(self, protocol: Protocol, period: int) -> None:
        super().__init__()
        self._protocol, self._period, self._next = protocol, period, period

    def _on_step(self) -> bool:
        if self.num_timesteps < self._next:
            return True
        self._next += self._period
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


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    settings = dict(SETTINGS[options.env_id])
    # Exploration falls within the same steps, however long the run may be.
    settings["exploration_fraction"] *= STEPS[options.env_id] / options.env_steps
    model = DQN(
        "MlpPolicy",
        options.env_id,
        policy_kwargs={"net_arch": [256, 256]},
        seed=options.seed,
        device="cpu",
        **settings,
    )
    protocol = Protocol(options)
    model.learn(options.env_steps, callback=Evaluating(protocol, options.eval_period))

    def load(state: dict) -> Act:
        model.q_net.load_state_dict(state)
        return acting(model.q_net)

    protocol.end(load)


if __name__ == "__main__":
    main()
