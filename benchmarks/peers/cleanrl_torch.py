"""DQN in one file of PyTorch, as CleanRL documents its `dqn` and `dqn_atari`, written here.

CleanRL's package is not what runs: its last release (1.2.0) asks for Python below 3.11 and the
Gym of 2021.
"""

import copy

import cleanrl_settings
import gymnasium
import numpy as np
import torch
from cleanrl_settings import EPSILON_START, GAMMA
from equations import Ring, epsilon, td_target
from protocol import PONG, Act, arguments
from rates import Rates, judge
from torch import nn


def network(environment: gymnasium.Env, hidden: tuple[int, ...]) -> nn.Sequential:
    """Layers of ReLUs; with frames, DQN's three convolutions before them."""
    layers: list[nn.Module] = []
    shape = environment.observation_space.shape
    if len(shape) == 3:
        layers += [nn.Conv2d(shape[0], 32, 8, stride=4), nn.ReLU()]
        layers += [nn.Conv2d(32, 64, 4, stride=2), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten()]
        width = 64 * 7 * 7
    else:
        width = int(np.prod(shape))
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU()]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, int(environment.action_space.n)))


def tensor(observations: np.ndarray) -> torch.Tensor:
    """Frames become numbers from 0 to 1."""
    if observations.dtype == np.uint8:
        return torch.as_tensor(observations) / 255.0
    return torch.as_tensor(observations)


def acting(online: nn.Module) -> Act:
    def act(observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return online(tensor(observations)).argmax(dim=1).numpy()

    return act


def make(env_id: str) -> gymnasium.Env:
    if env_id == PONG:
        import frames

        return frames.make(env_id)
    return gymnasium.make(env_id)


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    generator = np.random.default_rng(options.seed)
    settings = cleanrl_settings.of(options)
    environment = make(options.env_id)
    space = environment.observation_space
    once = options.env_id == PONG
    ring = Ring(settings.capacity, space.shape, space.dtype, options.seed, once)
    online = network(environment, settings.hidden)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=settings.learning_rate)
    updates = 0

    def learn() -> None:
        observations, actions, rewards, following, terminated = ring.sample(settings.batch_size)
        with torch.no_grad():
            best = target(tensor(following)).max(dim=1).values
            wanted = td_target(torch.as_tensor(rewards), torch.as_tensor(terminated), best, GAMMA)
        values = online(tensor(observations)).gather(1, torch.as_tensor(actions)[:, None])
        loss = nn.functional.mse_loss(values.squeeze(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    act = acting(online)
    observation, _ = environment.reset(seed=options.seed)
    protocol = judge(options)
    for step in range(options.env_steps):
        share = epsilon(step, EPSILON_START, settings.epsilon_end, settings.epsilon_steps)
        if generator.random() < share:
            action = int(generator.integers(environment.action_space.n))
        else:
            action = int(act(observation[None])[0])
        following, reward, terminated, cut, _ = environment.step(action)
        ring.add(observation, action, float(reward), following, terminated)
        observation = environment.reset()[0] if terminated or cut else following
        if step > settings.learning_starts and step % settings.update_period == 0:
            learn()
            updates += 1
        if step % settings.target_period == 0:
            target.load_state_dict(online.state_dict())
        if protocol.due(step + 1) and protocol.evaluate(
            step + 1, updates, act, lambda: copy.deepcopy(online.state_dict())
        ):
            break

    def load(state: dict) -> Act:
        online.load_state_dict(state)
        return acting(online)

    if isinstance(protocol, Rates):
        protocol.end(load, ring.bytes_per_transition)
    else:
        protocol.end(load)


if __name__ == "__main__":
    main()
