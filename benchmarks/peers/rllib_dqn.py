"""RLlib's DQN (its new API stack) with the settings of its own tuned example of CartPole."""

import argparse
import copy
import logging
import os
from typing import Any

import numpy as np
import ray
import torch
from protocol import Act, arguments
from rates import SAME, Rates, judge
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

SAMPLED = (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME)


def configuration(options: argparse.Namespace) -> DQNConfig:
    """Of rllib/tuned_examples/dqn/cartpole_dqn.py; there is none of it for LunarLander."""
    config = DQNConfig().environment(options.env_id).debugging(seed=options.seed)
    config = config.env_runners(num_env_runners=0).learners(num_learners=0)
    replay: dict[str, Any] = {"type": "PrioritizedEpisodeReplayBuffer", "alpha": 0.6, "beta": 0.4}
    if options.rate_seconds:
        same = SAME[options.env_id]
        return config.training(
            lr=same.learning_rate,
            train_batch_size_per_learner=same.batch_size,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": same.capacity},
            num_steps_sampled_before_learning_starts=same.learning_starts,
            training_intensity=same.batch_size / same.update_period,
            double_q=False,
            dueling=False,
            n_step=1,
        ).rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(same.hidden[:-1]),
                fcnet_activation="relu",
                head_fcnet_hiddens=list(same.hidden[-1:]),
                head_fcnet_activation="relu",
            )
        )
    return config.training(
        lr=5e-4,
        train_batch_size_per_learner=32,
        replay_buffer_config=replay | {"capacity": 50_000},
        n_step=(2, 5),
        double_q=True,
        dueling=True,
        epsilon=[(0, 1.0), (10_000, 0.02)],
    ).rl_module(
        model_config=DefaultModelConfig(
            fcnet_hiddens=[256],
            fcnet_activation="tanh",
            fcnet_bias_initializer="zeros_",
            head_fcnet_bias_initializer="zeros_",
            head_fcnet_hiddens=[256],
        )
    )


def acting(module: Any) -> Act:
    def act(observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found = module.forward_inference({Columns.OBS: torch.as_tensor(observations)})
        return found[Columns.ACTIONS].numpy()

    return act


def main() -> None:
    options = arguments()
    # Its own look at each iteration is short in the mode of rates.
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, logging_level=logging.ERROR)
    config = configuration(options)
    if options.rate_seconds:
        config = config.reporting(min_sample_timesteps_per_iteration=100)
    algorithm = config.build_algo()
    torch.set_num_threads(options.threads)
    learners, updates = algorithm.learner_group, 0
    update = learners.update

    def counted(*positional: Any, **named: Any) -> Any:
        nonlocal updates
        updates += 1
        return update(*positional, **named)

    learners.update = counted
    module = algorithm.get_module()
    act = acting(module)
    protocol = judge(options)
    while (env_steps := int(algorithm.metrics.peek(SAMPLED, default=0))) < options.env_steps:
        if protocol.due(env_steps) and protocol.evaluate(
            env_steps, updates, act, lambda: copy.deepcopy(module.get_state())
        ):
            break
        algorithm.train()

    def load(state: Any) -> Act:
        module.set_state(state)
        return acting(module)

    if isinstance(protocol, Rates):
        protocol.end(load)
    else:
        protocol.end(load)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
