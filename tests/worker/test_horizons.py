"""How far returns reach: the schedule against its formula, and what a worker then learns from."""

import numpy as np
import pytest
from support.worker_calls import Open

from ps_dqn.config import Config
from ps_dqn.state import Counters, State
from ps_dqn.worker.playing import schedules

BBF = {"n_step_start": 10, "n_step": 3, "gamma_start": 0.97, "gamma": 0.997}


def horizon(updates: int, **values: object) -> schedules.Horizon:
    return schedules.horizon(Config.from_values({**BBF, **values}), updates)


@pytest.mark.parametrize("made", [0, 1, 2_500, 5_000, 9_999])
@pytest.mark.parametrize("resets", [0, 1, 7])
def test_bbfs_schedules(made: int, resets: int) -> None:
    found = horizon(40_000 * resets + made, reset_period=40_000, anneal_updates=10_000)
    share = made / 10_000
    wanted = np.exp((1 - share) * np.log(10) + share * np.log(3))
    assert found.n_step == round(wanted)
    rest = np.exp((1 - share) * np.log(0.03) + share * np.log(0.003))
    assert found.gamma == pytest.approx(1 - rest, rel=1e-12)


def test_they_stay_where_they_end() -> None:
    for updates in (10_000, 39_999, 79_999):
        found = horizon(updates, reset_period=40_000)
        assert (found.n_step, found.gamma) == (3, pytest.approx(0.997, rel=1e-12))
    assert horizon(10**6).n_step == 3, "without resets they begin once"
    assert horizon(40_000, reset_period=40_000).n_step == 10


def test_each_may_change_alone() -> None:
    assert horizon(0, n_step_start=0) == (3, pytest.approx(0.97))
    assert horizon(0, gamma_start=0.0) == (10, pytest.approx(0.997))
    lengths = [horizon(i, n_step_start=1, n_step=4, anneal_updates=9).n_step for i in range(10)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (1, 4)


# Each push is two updates; a reset comes after every second one.
@pytest.mark.parametrize(
    ("pushes", "n_step", "gamma"), [(0, 4, 0.5), (1, 2, 0.75), (2, 4, 0.5), (3, 2, 0.75)]
)
def test_a_worker_learns_from_returns_of_that_length(
    opened: Open, pushes: int, n_step: int, gamma: float
) -> None:
    """Its environment pays 1 for each of four steps, and ends."""
    worker = opened(
        n_step=1, n_step_start=4, gamma=0.875, gamma_start=0.5, anneal_updates=4, reset_period=4,
        epsilon_start=0.0, epsilon_schedule="constant",
    )  # fmt: skip
    for _ in range(pushes):
        worker.exchange()
    worker.pull()
    worker.collect()
    batch = worker.sample().batch
    time = batch.observations[..., 1].astype(int)
    lengths = np.minimum(4 - time, n_step)
    wanted = sum(np.where(k < lengths, gamma**k, 0) for k in range(4))
    np.testing.assert_allclose(batch.returns, wanted, rtol=1e-6)
    ends = time + n_step >= 4
    np.testing.assert_allclose(batch.discounts, np.where(ends, 0, gamma**n_step), rtol=1e-6)
    np.testing.assert_array_equal(batch.next_observations[..., 1], time + lengths)


def test_a_workers_optimizer_begins_anew_with_the_parameters(opened: Open) -> None:
    worker = opened(reset_period=4)
    seen = []
    for number in range(1, 6):
        pulled = worker.pull()
        seen.append((pulled.slots.mean(), pulled.steps))
        worker.collect()
        worker.sample()
        worker.pack(0.5, slots=number)
        worker.push()
    assert seen == [(0, 0), (1, 2), (0, 0), (3, 2), (0, 0)]


def test_an_optimizer_that_comes_back_is_of_its_parameters(
    opened: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("worker")
    options = {"worker_dir": folder, "reset_period": 4, "replay_files": True}
    worker = opened(**options)
    for number in (1, 2, 3):
        worker.exchange(slots=number)
    worker.report()
    worker.host.close()
    for updates, slots in ((6, 3), (7, 3), (8, 0), (2, 0)):
        again = opened(**options)
        for shard in again.shards:
            vector = shard.frozen()
            shard.restore(State(vector, vector, vector, (), Counters(3, 6, 50, 2, updates)))
        assert again.pull().slots.mean() == slots
        again.host.close()
