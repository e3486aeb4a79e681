"""Tianshou's DQN with the settings of its own example of CartPole."""

import copy

import gymnasium
import numpy as np
import torch
from protocol import Act, arguments
from rates import SAME, Rates, judge
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step

# examples/discrete/discrete_dqn.py of Tianshou 2.0; there is none of it for LunarLander.
SETTINGS = {
    "hidden": (128, 128, 128),
    "batch_size": 64,
    "update_period": 10,  # and so many environments
    "capacity": 20_000,
    "learning_starts": 0,
    "learning_rate": 1e-3,
}
GAMMA, N_STEP, TARGET_PERIOD, EPSILON = 0.9, 3, 320, 0.1


def acting(network: torch.nn.Module) -> Act:
    def act(observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            values, _ = network(observations)
        return values.argmax(dim=1).numpy()

    return act


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    np.random.seed(options.seed)
    settings = SAME[options.env_id]._asdict() if options.rate_seconds else SETTINGS
    count = settings["update_period"]  # an update for each step of all
    environments = DummyVectorEnv([lambda: gymnasium.make(options.env_id)] * count)
    environments.seed(options.seed)
    spaces = gymnasium.make(options.env_id)
    network = Net(
        state_shape=spaces.observation_space.shape,
        action_shape=int(spaces.action_space.n),
        hidden_sizes=settings["hidden"],
    )
    policy = DiscreteQLearningPolicy(
        model=network,
        action_space=spaces.action_space,
        eps_training=EPSILON,
        eps_inference=0.0,
    )
    algorithm = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=settings["learning_rate"]),
        gamma=GAMMA,
        n_step_return_horizon=N_STEP,
        target_update_freq=TARGET_PERIOD,
    )
    replay = VectorReplayBuffer(settings["capacity"], count)
    collector = Collector[CollectStats](algorithm, environments, replay, exploration_noise=True)
    collector.reset()
    env_steps = updates = 0
    act = acting(network)
    protocol = judge(options)
    while env_steps < options.env_steps:
        # What its own trainer does, without its loggers and progress bars.
        with policy_within_training_step(policy):
            env_steps += int(collector.collect(n_step=count).n_collected_steps)
            if env_steps > settings["learning_starts"]:
                algorithm.update(buffer=replay, sample_size=settings["batch_size"])
                updates += 1
        if protocol.due(env_steps) and protocol.evaluate(
            env_steps, updates, act, lambda: copy.deepcopy(network.state_dict())
        ):
            break

    def load(state: dict) -> Act:
        network.load_state_dict(state)
        return acting(network)

    if isinstance(protocol, Rates):
        protocol.end(load)
    else:
        protocol.end(load)


if __name__ == "__main__":
    main()
