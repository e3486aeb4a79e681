"""A learner's environments that actors have: who is answered when, and what becomes of them."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support import paying_env
from support import processes as real
from support.scripted_actor import SPEC, ScriptedActor

from ps_dqn.actor.host import ActorHost
from ps_dqn.actor.messages import Hello, Welcome
from ps_dqn.config import Config
from ps_dqn.environments import Environments, Step
from ps_dqn.errors import UsageError
from ps_dqn.worker.playing import remote_environments
from ps_dqn.worker.playing.remote_environments import RemoteEnvironments

# Longer than any test takes: what does not wait for it waits for nobody.
FOR_EVER = 1e4
SECONDS = 60.0

Begin = Callable[..., tuple[RemoteEnvironments, list[ScriptedActor]]]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an actor has shown may take longer than a learner waits, on a busy machine."""
    monkeypatch.setattr(remote_environments, "PATIENCE", SECONDS)


@pytest.fixture
def begun() -> Iterator[Begin]:
    """Makes environments of scripted actors that have two each, and have all joined."""
    made: list = []

    def begin(num_actors: int, timeout: float) -> tuple[RemoteEnvironments, list[ScriptedActor]]:
        actors = [ScriptedActor(2) for _ in range(num_actors)]
        addresses = [actor.address for actor in actors]
        found = RemoteEnvironments(SPEC, 2 * num_actors, addresses, timeout)
        made.extend([found, *actors])
        found.start(lambda actor, envs, times: Hello("", envs, 10 * actor + times))
        for i, actor in enumerate(actors):
            actor.join(float(i))
        while len(found.waiting) < 2 * num_actors:
            assert not found.gather()
        return found, actors

    yield begin
    for each in made:
        each.close()


def numbers(found: RemoteEnvironments) -> list[float]:
    return found.observations[:, 0].tolist()


def test_all_that_are_there_are_answered_together(begun: Begin) -> None:
    found, actors = begun(2, FOR_EVER)
    assert numbers(found) == [0, 0, 1, 1]

    found.act(np.array([0, 1, 1, 0]))

    assert [actor.actions() for actor in actors] == [[0, 1], [1, 0]]
    actors[1].show(20.0, reward=2.0)
    actors[0].show(10.0, reward=1.0)
    [step] = found.gather()
    assert step.observations[:, 0].tolist() == [0, 0, 1, 1]
    assert step.actions.tolist() == [0, 1, 1, 0]
    assert step.rewards.tolist() == [1, 1, 2, 2]
    assert step.envs is not None
    assert step.envs.tolist() == found.waiting.tolist() == [0, 1, 2, 3]
    assert numbers(found) == [10, 10, 20, 20]
    assert found.waited == [0.25, 0.25]


def test_who_is_late_is_in_a_batch_to_come(begun: Begin) -> None:
    found, actors = begun(2, 0.01)
    found.act(np.zeros(4, np.int64))
    actors[1].show(20.0, reward=2.0)

    [step] = found.gather()

    assert step.rewards.tolist() == [2, 2]
    assert found.waiting.tolist() == [2, 3]
    found.act(np.ones(4, np.int64))
    actors[0].show(10.0, reward=1.0)
    # Of what it was told, though others were told something else meanwhile.
    steps = [step for step in found.gather() if step.envs is not None and step.envs[0] == 0]
    assert [step.actions.tolist() for step in steps] == [[0, 0]]
    assert [actor.actions() for actor in actors] == [[0, 0], [0, 0]]
    assert actors[1].actions() == [1, 1]


def test_without_a_timeout_nobody_waits(begun: Begin) -> None:
    found, actors = begun(2, 0.0)
    found.act(np.zeros(4, np.int64))
    actors[0].show(10.0)
    steps: list[Step] = []
    while not steps:
        steps = found.gather()
    assert found.waiting.tolist() == [0, 1]


def test_an_actor_that_is_lost_ends_its_episodes_and_comes_back(begun: Begin) -> None:
    found, actors = begun(2, FOR_EVER)
    found.act(np.zeros(4, np.int64))
    actors[1].show(20.0)

    actors[0].leave()

    # Nobody waits for it; what its newest action has led to is not known.
    lost = next(each for each in found.gather() if len(each.failed_envs))
    assert lost.failed_envs.tolist() == [0, 1]
    assert lost.observations[:, 0].tolist() == [0, 0]
    assert not lost.is_transition.any()
    while found.waiting.tolist() != [2, 3]:
        found.gather()
    assert (found.num_connected, found.absent) == (1, 0)

    hello = actors[0].join(100.0)
    assert hello.seed == 1, "it does not repeat what it did"
    found.act(np.zeros(4, np.int64))
    actors[1].show(21.0)
    while found.waiting.tolist() != [0, 1, 2, 3]:
        found.gather()
    assert numbers(found) == [100, 100, 21, 21]
    assert (found.num_connected, found.absent) == (2, -1)


def test_one_that_was_never_acted_in_has_no_episode_to_end(
    begun: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, actors = begun(1, FOR_EVER)
    monkeypatch.setattr(remote_environments, "PATIENCE", 0.05)
    actors[0].leave()
    steps: list[Step] = []
    while found.num_connected:
        steps += found.gather()
    assert steps == []


def test_nobody_is_waited_for_for_ever(begun: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = begun(1, FOR_EVER)
    found.act(np.zeros(2, np.int64))
    monkeypatch.setattr(remote_environments, "PATIENCE", 0.05)
    assert found.gather() == []
    assert not found.waiting.size


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Welcome("--env_id=Nothing-v0: unknown", [], "", 0, 0), "--env_id=Nothing-v0: unknown"),
        (Welcome("", [3], "float32", 2, 0), r"environments have \(\[3\], 'float32', 2, 0\)"),
        (Welcome("", [1], "float32", 3, 0), r"environments have \(\[1\], 'float32', 3, 0\)"),
        (b'{"version": 99}', "a message of another version of ps-dqn$"),
    ],
    ids=["refuses", "observes otherwise", "has other actions", "is of another version"],
)
def test_an_actor_that_cannot_do_it_is_a_persons_to_mend(
    answer: Welcome | bytes, says: str
) -> None:
    actor = ScriptedActor(2)
    found = RemoteEnvironments(SPEC, 2, [actor.address], FOR_EVER)
    found.start(lambda *_: Hello("", 2, 0))
    actor.join(0.0, answer)
    real.until(lambda: not found._inbox.empty(), SECONDS, "word of the actor")
    with pytest.raises(UsageError, match=rf"^actor at {actor.address}: .*{says}"):
        found.gather()
    found.close()
    actor.close()


def test_one_that_could_before_may_be_mended_while_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_environments, "PATIENCE", 0.05)
    actor = ScriptedActor(2)
    found = RemoteEnvironments(SPEC, 2, [actor.address], FOR_EVER)
    found.start(lambda *_: Hello("", 2, 0))
    actor.join(0.0)
    while not found.waiting.size:
        found.gather()
    actor.join(0.0, Welcome("no licence", [], "", 0, 0))
    actor.leave()
    while found.num_connected or not found._inbox.empty():
        found.gather()

    actor.join(7.0)

    while not found.waiting.size:
        found.gather()
    assert found.observations.tolist() == [[7.0], [7.0]]
    found.close()
    actor.close()


def test_failures_are_counted_once(begun: Begin) -> None:
    found, actors = begun(1, FOR_EVER)
    for count in (2, 0, 3):
        found.act(np.zeros(2, np.int64))
        actors[0].show(1.0, failures=count)
        assert len(found.gather()) == 1
    assert sum(found.failures.values()) == 5


def test_they_do_what_the_same_environments_do_here() -> None:
    """Two actors with three environments, against as many in this process, by the same seeds."""
    values = paying_env.SMALL | {"num_envs_per_worker": 3, "env_kwargs": '{"longer": true}'}
    config = Config.from_values(values)
    hosts = [ActorHost(0), ActorHost(0)]
    here = [Environments(config.environment, envs) for envs in (2, 1)]
    addresses = [f"127.0.0.1:{host.port}" for host in hosts]
    found = RemoteEnvironments(here[0].spec, 3, addresses, FOR_EVER)
    seeds = (4, 7)
    found.start(lambda actor, envs, _: Hello(config.to_json(), envs, seeds[actor]))
    for environments, seed in zip(here, seeds, strict=True):
        environments.reset(seed)
    while len(found.waiting) < 3:
        found.gather()
    rng = np.random.default_rng(1)
    for _ in range(40):
        actions = rng.integers(paying_env.ACTIONS, size=3)
        wanted = [here[0].step(actions[:2]), here[1].step(actions[2:])]
        found.act(actions)
        [step] = found.gather()
        for name in ("observations", "actions", "rewards", "terminated", "truncated"):
            both = np.concatenate([getattr(each, name) for each in wanted])
            np.testing.assert_array_equal(getattr(step, name), both)
        real_ones = np.concatenate([each.is_transition for each in wanted])
        np.testing.assert_array_equal(step.is_transition, real_ones)
        shown = np.concatenate([each.observations for each in here])
        np.testing.assert_array_equal(found.observations, shown)
    found.close()
    for each in [*hosts, *here]:
        each.close()
    real.until(lambda: not any(host.figures.connected for host in hosts), SECONDS, "hosts to end")
    assert sum(host.figures.steps for host in hosts) == 2 * 40
