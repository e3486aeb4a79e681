"""Who waits for whom where actors and learners share a replay."""

import pytest
from support.single_server import Server

from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, Status

LEARNER, ACTOR = 0, 1
# 4 env steps an update, of which a push has 2; learning begins after 40.
OPTIONS = {
    **{"topology": "apex", "replay": "prioritized", "num_actors": 2, "num_envs_per_worker": None},
    **{"num_envs": 2, "update_period": 4, "local_updates": 2, "min_replay_size": 40},
    **{"replay_capacity": 400, "total_env_steps": 200},
}


@pytest.fixture
def server() -> Server:
    return Server(num_workers=1, **OPTIONS)


def collect(server: Server, env_steps: int) -> None:
    server.push([0.0] * 6, worker=ACTOR, kind=Kind.COLLECTED, updates=0, env_steps=env_steps)


def learn(server: Server) -> None:
    base = server.counters.version
    server.push([1.0] * 6, worker=LEARNER, base=base, env_steps=0, updates=2)


def statuses(server: Server) -> tuple[Status, Status]:
    return server.status(worker=LEARNER), server.status(worker=ACTOR)


def test_whoever_is_ahead_waits(server: Server) -> None:
    assert statuses(server) == (Status.WAIT, Status.READY), "there is nothing to learn from"
    collect(server, 40)
    assert statuses(server) == (Status.WAIT, Status.READY)
    collect(server, 8)
    assert statuses(server) == (Status.READY, Status.READY), "enough for a push"
    learn(server)
    assert statuses(server) == (Status.WAIT, Status.READY)
    collect(server, 16)  # two pushes ahead
    assert statuses(server) == (Status.READY, Status.WAIT)
    learn(server)
    assert statuses(server) == (Status.READY, Status.READY)


def test_actors_are_two_pushes_of_each_learner_ahead_at_most() -> None:
    server = Server(num_workers=2, **OPTIONS | {"num_learners": 2})
    actor = {"worker": 2, "kind": Kind.COLLECTED, "updates": 0}
    server.push([0.0] * 6, env_steps=40 + 15, **actor)
    assert server.status(worker=2) == Status.READY

    server.push([0.0] * 6, env_steps=1, **actor)  # both make 2 updates at once, of 4 env steps each

    assert server.status(worker=2) == Status.WAIT


def test_an_actor_whose_replay_lacks_experience_does_not_wait(server: Server) -> None:
    collect(server, 80)
    assert server.status(worker=ACTOR) == Status.WAIT

    assert server.status(worker=ACTOR, is_pressing=1) == Status.READY


def test_the_run_ends_for_all_of_them(server: Server) -> None:
    collect(server, 200)

    assert statuses(server) == (Status.FINISHED, Status.FINISHED)
    assert server.status(worker=ACTOR, is_pressing=1) == Status.FINISHED


def test_what_is_only_collected_moves_counters_and_nothing_else(server: Server) -> None:
    before = server.state
    collect(server, 24)
    learn(server)
    after = server.state

    assert server.counters.env_steps == 24
    assert server.counters.episodes == 2
    assert server.counters.updates == 2
    assert server.counters.version == 1
    assert server.counters.sequential_updates == 2, "one worker learns, so it alone counts"
    assert after.online.tolist() == (before.online + 1).tolist()


def test_an_actor_is_sent_no_target(server: Server) -> None:
    assert server.pull(worker=ACTOR)[0].has_target, "as it would be by itself"

    assert not server.pull(worker=ACTOR, target_version=messages.UNWANTED)[0].has_target
