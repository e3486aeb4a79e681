"""What a worker hosts, called as the closures call it but without TensorFlow.

The toy environment observes [episode, time], pays the action it is given as reward and ends after
four steps, so rewards tell which actions were taken.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from ps_dqn import reports
from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.experience import ExperienceHost
from ps_dqn.replay import Transitions
from ps_dqn.reports import Report

LENGTH = 4
ACTIONS = 3


class Paying(gymnasium.Env):
    """Pays the action taken; `longer` makes environment i of a vector last i steps longer."""

    closed = 0

    def __init__(self, longer: bool = False):
        self.observation_space = gymnasium.spaces.Box(0, 1000, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.longer, self.length, self.episode, self.time = longer, LENGTH, -1, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            # A vector environment seeds its environments seed, seed + 1, …
            self.length = LENGTH + (seed % 10 if self.longer else 0)
            self.episode = -1
        self.episode, self.time = self.episode + 1, 0
        return np.array([self.episode, 0], np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.time += 1
        observation = np.array([self.episode, self.time], np.float32)
        return observation, float(action), self.time == self.length, False, {}

    def close(self) -> None:
        Paying.closed += 1


gymnasium.register("TestExperience/Paying-v0", Paying, disable_env_checker=True)

SMALL = {
    "env_id": "TestExperience/Paying-v0",
    "num_envs_per_worker": 2,
    "update_period": 1,
    "local_updates": 2,
    "batch_size": 8,
    "n_step": 1,
    "replay_capacity": 200,
    "min_replay_size": 12,
    "gamma": 0.9,
    "eval_epsilon": 0.0,
    "max_eval_steps": 1000,
}


def config(**values: Any) -> Config:
    return Config.from_values(SMALL | values)


@pytest.fixture
def hosts() -> Iterator[list[ExperienceHost]]:
    made: list[ExperienceHost] = []
    yield made
    for host in made:
        host.close()


def call(host: ExperienceHost, method: str, *arguments: Any) -> Any:
    return host.methods[method](*arguments)


def open_host(
    hosts: list[ExperienceHost], worker: int = 0, session: bytes = b"one", **values: Any
) -> ExperienceHost:
    hosts.append(ExperienceHost(worker))
    begin(hosts[-1], session, **values)
    return hosts[-1]


def begin(host: ExperienceHost, session: bytes = b"one", **values: Any) -> list[Any]:
    slots = np.zeros((2, 5), np.float32)
    return call(host, "begin", session, config(**values).to_json().encode(), slots)


def act(host: ExperienceHost, steps: int, epsilon: float = 0.0, action: int = 1) -> list[Any]:
    """Steps with the same greedy action for everyone; returns what the last step returned."""
    answer = []
    for _ in range(steps):
        greedy = np.full(2, action, np.int32)
        answer = call(host, "step", greedy, np.float32(epsilon))
    return answer


def report(host: ExperienceHost) -> Report:
    [vector] = call(host, "report", np.zeros(2), np.zeros(6))
    return reports.decode(vector)


def sampled(host: ExperienceHost) -> tuple[Transitions, int, int]:
    mark, *fields, env_steps, episodes = call(host, "sample")
    assert mark == 1
    return Transitions(*fields), int(env_steps), int(episodes)


def test_one_closure_in_the_order_of_the_closures(hosts: list[ExperienceHost]) -> None:
    host = ExperienceHost(3)
    hosts.append(host)
    assert set(host.methods) == {"begin", "evaluate_begin"}, "the rest needs a configuration"
    slots, steps = begin(host)
    assert slots.shape == (2, 5)
    assert not slots.any()
    assert steps == 0

    observations, missing = call(host, "observe")
    assert observations.tolist() == [[0, 0], [0, 0]]
    assert missing == 12
    calls = 0
    while missing:
        observations, fewer = act(host, 1)
        assert fewer <= missing
        missing, calls = fewer, calls + 1
    # 6 rows of each environment that have one after them.
    assert calls == 7

    batch, env_steps, episodes = sampled(host)
    assert batch.observations.shape == batch.next_observations.shape == (2, 8, 2)
    assert [batch[i].shape for i in (1, 2, 3)] == [(2, 8)] * 3
    assert batch.actions.dtype == np.int32
    assert (batch.returns == 1).all(), "the reward is the action"
    # 7 steps: four of an episode, a reset, two more.
    assert env_steps == 12
    assert episodes == 2

    assert call(host, "keep", np.full((2, 5), 7, np.float32), np.int64(2)) == [1]
    assert call(host, "pushed") == [1]
    sums = np.array([5.0, 1, 2, 0.5, 3.5, 4.5])
    [vector] = call(host, "report", np.array([41.0, 0.25]), sums)
    assert vector.dtype == np.float64
    got = reports.decode(vector)
    assert (got.worker, got.version, got.epsilon) == (3, 41, 0.25)
    assert (got.staleness, got.pushes, got.updates) == (5, 1, 2)
    assert (got.td_loss, got.q_values, got.grad_norm) == (0.5, 3.5, 4.5)
    assert (got.env_steps, got.episodes) == (12, 2)
    assert (got.return_sum, got.return_min, got.return_max) == (8, 4, 4)


def test_slots_are_kept_until_the_next_closure(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    buffer = np.full((2, 5), 7, np.float32)
    call(host, "keep", buffer, np.int64(64))
    # TensorFlow's memory behind the array is used again after the call.
    buffer[:] = -1
    slots, steps = begin(host)
    assert (slots == 7).all()
    assert steps == 64


def test_reset_steps_are_not_counted(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    # Ten steps: 4 of an episode, a reset, 4, a reset. Two environments.
    act(host, 10)
    got = report(host)
    assert got.env_steps == 16
    assert got.episodes == 4
    act(host, 1)
    assert report(host).env_steps == 2


def test_sample_and_report_count_since_the_last_time(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    act(host, 3)
    assert sampled(host)[1:] == (6, 0)
    assert sampled(host)[1:] == (0, 0)
    act(host, 1)
    assert sampled(host)[1:] == (2, 2)
    # The report has all of the closure, the pushes have had their parts.
    got = report(host)
    assert (got.env_steps, got.episodes) == (8, 2)
    begin(host)
    act(host, 2)
    assert sampled(host)[1:] == (2, 0), "one of the two steps was the reset"
    assert report(host).env_steps == 2


def test_episode_returns_span_reports(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    act(host, 2, action=2)
    first = report(host)
    assert (first.episodes, first.return_sum) == (0, 0)
    assert (first.return_min, first.return_max) == (np.inf, -np.inf)
    act(host, 2, action=1)
    second = report(host)
    assert (second.episodes, second.return_sum) == (2, 2 * (2 + 2 + 1 + 1))
    # The next episode starts from zero; its reset step pays nothing.
    act(host, 5, action=1)
    third = report(host)
    assert (third.episodes, third.return_sum, third.return_max) == (2, 8, 4)


def test_report_has_the_replay_size_and_the_seconds(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts, n_step=2)
    call(host, "observe")
    act(host, 4)
    sampled(host)
    got = report(host)
    assert got.replay_size == 2 * (4 - 2)
    assert got.time_environment > 0
    assert got.time_sampling > 0
    assert got.time_gradient == 0, "no keep was called"
    assert report(host).time_environment == 0


def test_epsilon_zero_is_all_greedy(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts, local_updates=64)
    act(host, 90, epsilon=0.0, action=2)
    batch = sampled(host)[0]
    assert set(batch.actions.ravel().tolist()) == {2}
    assert set(batch.returns.ravel().tolist()) == {2.0}


def test_epsilon_one_is_all_random(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    act(host, 1500, epsilon=1.0, action=2)
    got = report(host)
    assert got.env_steps == 2400
    # Uniform over 0, 1, 2 has mean 1 and variance 2/3; the bound is five standard deviations.
    assert abs(got.return_sum / 2400 - 1) < 5 * (2 / 3 / 2400) ** 0.5


def test_epsilon_is_the_share_of_random_actions(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    act(host, 1500, epsilon=0.3, action=0)
    # Three in ten are random, and those pay 1 on average: variance 0.3 · 5/3 - 0.3².
    assert abs(report(host).return_sum / 2400 - 0.3) < 5 * (0.41 / 2400) ** 0.5


def test_each_environment_explores_on_its_own(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts, local_updates=64, env_id="CartPole-v1")
    pairs = set()
    for _ in range(40):
        before = call(host, "observe")[0].copy()
        act(host, 1, epsilon=0.5, action=0)
        after = call(host, "observe")[0]
        # CartPole's speed goes up with action 1 and down with action 0; resets are left out.
        speed = after[:, 1] - before[:, 1]
        if (abs(speed) > 0.1).all():
            pairs.add(tuple((speed > 0).tolist()))
    assert pairs == {(False, False), (False, True), (True, False), (True, True)}


def history(host: ExperienceHost) -> list[bytes]:
    """Everything random that a host shows: first states, exploration, sampling."""
    shown = [call(host, "observe")[0].tobytes()]
    shown += [act(host, 1, epsilon=0.5)[0].tobytes() for _ in range(60)]
    return shown + [each.tobytes() for each in sampled(host)[0]]


def test_seed_and_worker_decide_the_data(hosts: list[ExperienceHost]) -> None:
    cartpole = {"env_id": "CartPole-v1"}
    first = history(open_host(hosts, worker=1, seed=5, **cartpole))
    again = history(open_host(hosts, worker=1, seed=5, **cartpole))
    other_worker = history(open_host(hosts, worker=2, seed=5, **cartpole))
    other_seed = history(open_host(hosts, worker=1, seed=6, **cartpole))
    assert first == again
    for other in (other_worker, other_seed):
        assert first[0] != other[0], "other first states"
        assert first[-1] != other[-1], "other minibatches"


def test_worker_decides_exploration_and_sampling_too(hosts: list[ExperienceHost]) -> None:
    # In the toy nothing but exploration and sampling is random.
    def shown(worker: int, seed: int) -> tuple[list[float], list[float]]:
        host = open_host(hosts, worker=worker, seed=seed)
        act(host, 40, epsilon=0.0)
        draws = sampled(host)[0].observations.ravel().tolist()
        rewards = []
        for _ in range(20):
            act(host, 1, epsilon=1.0)
            rewards.append(report(host).return_sum)
        return draws, rewards

    first, again = shown(0, 0), shown(0, 0)
    assert first == again
    for other in (shown(1, 0), shown(0, 1)):
        assert first[0] != other[0]
        assert first[1] != other[1]


def test_a_new_session_builds_everything_anew(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    act(host, 20)
    call(host, "keep", np.ones((2, 5), np.float32), np.int64(9))
    closed = Paying.closed
    slots, steps = begin(host, session=b"two", num_envs_per_worker=1, min_replay_size=30)
    assert Paying.closed == closed + 2, "the old environments are ended"
    assert steps == 0
    assert not slots.any()
    observations, missing = call(host, "observe")
    assert observations.tolist() == [[0, 0]], "the new configuration's environments"
    assert missing == 30
    assert report(host).env_steps == 0


def test_the_same_session_goes_on(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    act(host, 3)
    begin(host)
    observations, missing = call(host, "observe")
    assert observations.tolist() == [[0, 3], [0, 3]]
    assert missing == 12 - 4


def test_close_forgets(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    act(host, 3)
    host.close()
    assert "step" not in host.methods
    begin(host)
    assert call(host, "observe")[0].tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("num_envs", [2, 4])
def test_warm_up_ends_wherever_the_configuration_is_accepted(
    num_envs: int, hosts: list[ExperienceHost]
) -> None:
    # A closure steps until nothing is missing: a replay that can never hold `min_replay_size`
    # transitions would keep it there for ever.
    values = {"num_envs_per_worker": num_envs, "update_period": 4, "n_step": 3}
    limits = {"replay_capacity": 40, "min_replay_size": 40}
    try:
        config(**values, **limits)
    except UsageError:
        return
    host = open_host(hosts, **values, **limits)
    missing = 1
    for _ in range(200):
        _, missing = call(host, "step", np.zeros(num_envs, np.int32), np.float32(0))
    assert missing == 0


def evaluate(host: ExperienceHost, episodes: int, action: int = 1, **values: Any) -> Any:
    """Plays an evaluation as `closures.py` does; returns and how many steps it took."""
    text = config(**values).to_json().encode()
    [observed] = call(
        host, "evaluate_begin", b"one", text, np.int64(values.get("seed", 0)), np.int32(episodes)
    )
    assert len(observed) == episodes
    playing, steps = episodes, 0
    while playing > 0:
        greedy = np.full(episodes, action, np.int32)
        observed, playing = call(host, "evaluate_step", greedy)
        assert playing.dtype == np.int32
        steps += 1
    mark, returns = call(host, "evaluate_end")
    assert mark == 1
    assert returns.dtype == np.float64
    return returns.tolist(), steps


LONGER: dict[str, Any] = {"env_kwargs": '{"longer": true}'}


def test_only_first_episodes_count_in_evaluations(hosts: list[ExperienceHost]) -> None:
    hosts.append(ExperienceHost(0))
    # Environment i's episodes last 4 + i steps: while the last one still plays, the first has
    # begun its next episode, whose rewards must not count.
    returns, steps = evaluate(hosts[0], 4, action=2, **LONGER)
    assert returns == [8, 10, 12, 14]
    assert steps == 7


def test_evaluations_are_cut(hosts: list[ExperienceHost]) -> None:
    hosts.append(ExperienceHost(0))
    returns, steps = evaluate(hosts[0], 4, max_eval_steps=5, **LONGER)
    assert returns == [4, 5, 5, 5]
    assert steps == 5
    # The cut is of one evaluation, not of all together.
    assert evaluate(hosts[0], 4, max_eval_steps=5, **LONGER) == ([4, 5, 5, 5], 5)


def test_evaluations_begin_anew_and_depend_on_their_seed(hosts: list[ExperienceHost]) -> None:
    hosts.append(ExperienceHost(0))
    options = {"eval_epsilon": 0.5, "num_envs_per_worker": 2, **LONGER}
    text = config(**options).to_json().encode()

    def play(seed: int) -> list[float]:
        call(hosts[0], "evaluate_begin", b"one", text, np.int64(seed), np.int32(3))
        for _ in range(10):
            call(hosts[0], "evaluate_step", np.ones(3, np.int32))
        return call(hosts[0], "evaluate_end")[1].tolist()

    first, other, again = play(10), play(20), play(10)
    assert first == again
    assert first != other
    assert first != [4, 5, 6], "eval_epsilon 0.5 takes random actions"


def test_greedy_evaluations_take_no_random_action(hosts: list[ExperienceHost]) -> None:
    hosts.append(ExperienceHost(0))
    assert evaluate(hosts[0], 50, eval_epsilon=0.0)[0] == [4.0] * 50


def test_another_number_of_episodes_makes_new_environments(
    hosts: list[ExperienceHost],
) -> None:
    hosts.append(ExperienceHost(0))
    closed = Paying.closed
    assert len(evaluate(hosts[0], 3)[0]) == 3
    assert Paying.closed == closed
    assert len(evaluate(hosts[0], 5)[0]) == 5
    assert Paying.closed == closed + 3


def test_an_evaluation_leaves_the_training_alone(hosts: list[ExperienceHost]) -> None:
    host, twin = open_host(hosts), open_host(hosts)
    for each in (host, twin):
        act(each, 3, epsilon=0.5)
    evaluate(host, 3, eval_epsilon=0.5)
    for each in (host, twin):
        act(each, 6, epsilon=0.5)
    assert report(host).return_sum == report(twin).return_sum
    assert all(
        (one == other).all() for one, other in zip(sampled(host)[0], sampled(twin)[0], strict=True)
    )


def test_a_training_session_ends_the_old_evaluation(hosts: list[ExperienceHost]) -> None:
    host = open_host(hosts)
    evaluate(host, 3)
    assert "evaluate_step" in host.methods
    begin(host, session=b"two")
    assert "evaluate_step" not in host.methods


def test_the_configuration_arrives_whole(hosts: list[ExperienceHost]) -> None:
    sent = config(gamma=0.5, hidden_sizes=(3, 4), target_return=1.5)
    assert Config.from_json(sent.to_json()) == sent
    host = open_host(hosts, gamma=0.5)
    act(host, 3)
    discounts = sampled(host)[0].discounts
    assert dataclasses.asdict(sent)["learning"]["gamma"] == 0.5
    assert set(discounts.ravel().tolist()) == {0.5}
