"""A replay server against a worker's own replay, fed with the same steps of real environments."""

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.environments import Environments, EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import parcels
from ps_dqn.replay.batch import zero_batch
from ps_dqn.replay.outbox import Outbox
from ps_dqn.replay.parcels import Parcel
from ps_dqn.replay.plan import make_memory
from ps_dqn.replay_server import shares
from ps_dqn.replay_server.shard import ReplayShard

ENVS = 3
OPTIONS = {
    **{"topology": "apex", "replay": "prioritized", "num_actors": 1, "num_envs": ENVS},
    **{"n_step": 2, "gamma": 0.5, "batch_size": 8, "local_updates": 2, "min_replay_size": 30},
    **{"replay_capacity": 600, "priority_alpha": 1.0, "priority_epsilon": 1e-9},
}


def config_of(**options) -> Config:
    return Config.from_values(OPTIONS | options)


def shard_of(config: Config, spec: EnvironmentSpec, folder=None) -> ReplayShard:
    nothing = zero_batch(shares.of(config, 0, 1), spec)
    return ReplayShard(config, spec, 0, 1, nothing, folder)


def feed(config: Config, steps: int, targets, outbox: Outbox, every: int = 5, seed: int = 3):
    """Plays at random, and hands over to a shard; gives what every environment has shown."""
    rng = np.random.default_rng(seed)
    environments = Environments(config.environment, ENVS)
    environments.reset(seed)
    for number in range(steps):
        actions = rng.integers(environments.num_actions, size=ENVS)
        step = environments.step(actions)
        values = rng.normal(size=(ENVS, environments.num_actions)).astype(np.float32)
        for target in targets:
            target(step)
        outbox.append(step._replace(values=values))
        if number % every == every - 1:
            yield outbox.take()[0]
            outbox.handed_over(0, is_lacking=False)
    environments.close()


@pytest.mark.parametrize(
    "options",
    [{}, {"frame_stack": 3}],
    ids=["vectors", "stacked frames"],
)
def test_rows_are_those_of_a_replay_that_saw_the_steps_itself(options) -> None:
    config = config_of(**options)
    environments = Environments(config.environment, ENVS)
    spec = environments.spec
    environments.close()
    own = make_memory(shares.of(config, 0, 1), spec, np.random.default_rng(0), None)
    shard, outbox = shard_of(config, spec), Outbox(config, spec, 1)
    for parcel in feed(config, 60, [own.append], outbox):
        shard.add(0, parcel)

    mine, theirs = own._ring, shard._replay._ring  # type: ignore[attr-defined]
    for env in range(ENVS):
        rows = int(theirs.written[env])
        assert 0 < rows <= mine.written[env]
        place = slice(env * theirs.per_env, env * theirs.per_env + rows)
        for name in ("actions", "rewards", "ends", "flags"):
            np.testing.assert_array_equal(getattr(theirs, name)[place], getattr(mine, name)[place])
        np.testing.assert_array_equal(
            theirs._frames.read(np.arange(rows) + place.start),
            mine._frames.read(np.arange(rows) + place.start),
        )


def test_first_draws_follow_what_actors_announced_and_later_ones_what_learners_found() -> None:
    config = config_of()
    spec = EnvironmentSpec((4,), np.dtype(np.float32), 2, None)
    shard, outbox = shard_of(config, spec), Outbox(config, spec, 1)
    for parcel in feed(config, 60, [], outbox):
        shard.add(0, parcel)
    given = shard.draw()
    assert given.number == 1
    drawn = shard._draws[1]
    announced = shard._sampler._announced[shard._sampler._leaves(drawn.envs, drawn.items)]
    total = shard._sampler._tree.total
    np.testing.assert_allclose(given.batch.weights, (announced + 1e-9) / total, rtol=1e-5)

    def is_it(some):  # a row may be drawn more than once
        return (some.envs == drawn.envs[0, 5]) & (some.items == drawn.items[0, 5])

    shard.update(1, np.where(is_it(drawn), 1e6, 1e-6).astype(np.float32))

    again = shard.draw()
    mass = again.batch.weights[is_it(shard._draws[2])]
    assert len(mass) > 12
    assert mass == pytest.approx(1, abs=1e-2)


def test_a_draw_before_there_is_enough_is_of_nothing() -> None:
    config = config_of()
    spec = EnvironmentSpec((4,), np.dtype(np.float32), 2, None)
    shard = shard_of(config, spec)

    given = shard.draw()

    assert (int(given.number), int(given.rows)) == (0, 0)
    assert not given.batch.weights.any()
    shard.update(0, np.ones((2, 8), np.float32))
    shard.update(77, np.ones((2, 8), np.float32))  # of a server that was lost
    assert shard.ledger()["updates"] == 0


@pytest.mark.parametrize("lost", ["a parcel", "the actor"])
def test_no_transition_joins_what_was_lost_in_between(lost: str) -> None:
    config = config_of()
    spec = EnvironmentSpec((4,), np.dtype(np.float32), 2, None)
    shard = shard_of(config, spec)
    some = list(feed(config, 10, [], Outbox(config, spec, 1)))
    others = list(feed(config, 10, [], Outbox(config, spec, 1), seed=8))
    sent = [some[0], others[0]] if lost == "the actor" else [some[0], others[1]]

    for parcel in sent:
        shard.add(0, parcel)

    ring = shard._replay._ring
    rows = np.arange(ring.per_env * ENVS).reshape(ENVS, -1)
    for env in range(ENVS):
        first = 3  # rows of the first parcel: 5 steps, of which 2 are held back
        flags = ring.flags[rows[env]]
        assert flags[first - 1] & 1 == 0, "the last row only ends what led to it"
        assert ring.ends[rows[env]][first - 2] == 1
        assert flags[first] & 2, "another episode begins"


def test_a_parcel_that_comes_twice_counts_once() -> None:
    config = config_of()
    spec = EnvironmentSpec((4,), np.dtype(np.float32), 2, None)
    shard = shard_of(config, spec)
    [parcel, *_] = feed(config, 10, [], Outbox(config, spec, 1))

    first = shard.add(0, parcel)

    assert shard.add(0, parcel).tolist() == first.tolist()
    assert shard._replay._ring.written.tolist() == [3] * ENVS


def test_files_are_gone_on_with(tmp_path) -> None:
    config = config_of(replay_files=True)
    spec = EnvironmentSpec((4,), np.dtype(np.float32), 2, None)
    shard, outbox = shard_of(config, spec, tmp_path), Outbox(config, spec, 1)
    for parcel in feed(config, 60, [], outbox):
        shard.add(0, parcel)
    before = shard.rows
    assert shard.draw().number == 1
    shard.close()

    again = shard_of(config, spec, tmp_path)

    assert before - ENVS <= again.rows <= before
    assert again.draw().number == 1
    again.close()


def test_servers_share_out_what_a_run_keeps_by_default_too() -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "replay_capacity"}
    config = Config.from_values(options | {"num_envs": 4})
    spec = EnvironmentSpec((4,), np.dtype(np.float32), 2, None)
    whole = shares.planned(config, spec, 0, 1).capacity
    half = shares.planned(config, spec, 0, 2).capacity
    assert half == pytest.approx(whole / 2, rel=0.01)


IMAGE = EnvironmentSpec((40, 40), np.dtype(np.uint8), 2, None)
MEMORY = {"replay_capacity": None, "replay_memory": "200kB", "replay_compression": "lz4"}


def image_parcels(steps: int, is_noise: bool):
    """One long episode of each environment, a parcel a step: rewards say what images are of."""
    rng = np.random.default_rng(0)
    nothing, grid = np.zeros((0,), np.int64), np.zeros((1, ENVS))
    for number in range(steps):
        frames = np.zeros((1, ENVS, 40, 40), np.uint8)
        if is_noise:
            frames = rng.integers(0, 256, frames.shape, np.uint8)
        frames[..., 0, 0] = number % 256
        rewards, errors = grid + number % 256, grid + 1
        yield parcels.pack(
            Parcel(
                *(1, number, frames, grid.astype(np.int32), rewards.astype(np.float32)),
                *(grid.astype(np.uint8), grid == 0, errors.astype(np.float32)),
                *(np.ones((1, ENVS, 0), np.bool_), frames[:0, 0], nothing),
                *(frames[:0, 0], nothing, np.ones((0, 0), np.bool_)),
            )
        )


@pytest.mark.parametrize("is_noise", [False, True], ids=["frames that shrink", "noise"])
def test_a_memory_bounds_what_a_server_keeps(is_noise: bool) -> None:
    config = config_of(**MEMORY)
    plan = shares.planned(config, IMAGE, 0, 1)
    shard = shard_of(config, IMAGE)
    for parcel in image_parcels(plan.capacity, is_noise):
        shard.add(0, parcel)

    assert shard.ledger()["bytes_held"] == plan.nbytes <= 200_000
    uncompressed = 200_000 // 1600
    if is_noise:
        assert 30 <= shard.rows < uncompressed
    else:
        assert 4 * uncompressed < shard.rows <= plan.capacity
    batch = shard.draw().batch
    shown, next_shown = (
        images[..., 0, 0].astype(np.float32)
        for images in (batch.observations, batch.next_observations)
    )
    fits = shown < 254  # then numbers begin anew
    np.testing.assert_array_equal(next_shown[fits], shown[fits] + 2)
    np.testing.assert_array_equal(batch.returns[fits], shown[fits] + 0.5 * (shown[fits] + 1))


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        (1, "--min_replay_size=30: must not exceed --replay_memory=30kB (at least 12 transitions"),
        (2, "each of 2 replay servers has its share: --min_replay_size=15: must not exceed"),
    ],
)
def test_a_memory_that_cannot_hold_what_learning_needs_is_refused(servers: int, says: str) -> None:
    config = config_of(**MEMORY | {"replay_memory": "30kB"})
    with pytest.raises(UsageError) as caught:
        shares.planned(config, IMAGE, 0, servers)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)
