"""What a worker hosts: its side of pull and push.

The toy environment is that of `support/paying_env.py`.
"""

from typing import Any

import numpy as np
import pytest
from support.worker_calls import RUN, SIZE, SLOTS, Open, Worker

from ps_dqn.telemetry.metrics import PHASES, WORK
from ps_dqn.wire import messages
from ps_dqn.wire.messages import HEADER, Kind, PushHeader, Status


def test_tensorflow_takes_over_what_stands_for_parameters_without_copying_it(opened: Open) -> None:
    places = set()
    for _ in range(10):
        worker = opened(aggregation="sync", num_workers=2)
        ready = worker.pull()
        worker.collect()
        worker.sample()
        worker.pack(2.0)
        worker.push()
        waiting = worker.pull()
        assert waiting.status == Status.WAIT, "for the other worker"
        assert waiting.online.tolist() == [0] * SIZE
        places |= {each.ctypes.data % 64 for each in (ready.target, waiting.online, waiting.target)}
    assert places == {0}


def test_one_closure_in_the_order_of_the_closures(opened: Open) -> None:
    greedy = {"epsilon_start": 0.0, "epsilon_end": 0.0}
    worker = Worker(3, num_workers=4, outer_learning_rate=0.5, outer_momentum=0.0, **greedy)
    requests = worker.begin()
    assert requests.tolist() == [[RUN, 3, -1, 0, 0]] * 2

    pulled = worker.pull()
    assert (pulled.status, pulled.status.dtype) == (Status.READY, np.int32)
    assert pulled.online.tolist() == pulled.target.tolist() == [1.0] * SIZE
    assert pulled.slots.tolist() == [[0.0] * SIZE] * SLOTS
    assert (pulled.steps, pulled.steps.dtype) == (0, np.float32)
    expected_rate = np.float32(worker.config.learning.learning_rate)
    assert (pulled.learning_rate, pulled.learning_rate.dtype) == (expected_rate, np.float32)
    assert (pulled.epsilon, pulled.epsilon.dtype) == (0.0, np.float32)
    assert (pulled.seed.shape, pulled.seed.dtype) == ((2,), np.int32)
    acting = pulled.acting
    assert acting.observations.tolist() == [[0, 0], [0, 0]]
    assert (acting.state.shape, acting.state.dtype) == ((2, 0), np.float32)
    assert (acting.should_act, acting.should_act.dtype) == (1, np.int32)
    assert worker.collect() == 7, "until replay is warm: 6 rows each that have one after them"

    sampled = worker.sample()
    assert (sampled.should_push, sampled.should_push.dtype) == (1, np.int32)
    assert sampled.batch.observations.shape == (2, 8, 2)
    worker.pack(2.0, slots=7.0, loss=0.5)
    verdict = worker.push()
    # 7 steps of 2 environments, of which one each was a reset; both ended an episode.
    # 2 updates beside those of three others, which is half a sequential one.
    assert verdict == (Kind.APPLIED, 0, 0, 0, 1, 2, 12, 2, 0)

    got = worker.report()
    assert (got.worker, got.counters) == (3, (1, 2, 12, 2, 0))
    assert (got.pushes, got.refused, got.withheld) == (1, 0, 0)
    assert (got.updates, got.env_steps, got.episodes) == (2, 12, 2)
    assert (got.td_loss, got.q_values, got.grad_norm) == (0.5, 3.0, 5.0)
    assert got.return_sum == 8
    assert got.epsilon == 0.0
    assert got.replay_size == 12
    # float32 parameters and, at the next multiple of 64 bytes, the target.
    assert got.bytes_pulled == 2 * (HEADER + 2 * 64)
    assert got.bytes_pushed == 2 * 8 * len(PushHeader._fields) + 4 * SIZE
    for phase in PHASES:
        is_done = phase in WORK and phase != "adding"  # of actors, to a replay elsewhere
        assert (getattr(got, f"time_{phase}") > 0) == is_done, phase
    assert (got.pull_max, got.push_max) == (got.pull_took, got.push_took)

    # The next closure: the optimizer's slots go on, nothing is reported twice, and the target that
    # is here already does not travel again.
    worker.begin()
    first, pulled = pulled, worker.pull()
    assert pulled.online.tolist() == [1.0 + 0.5 * 2.0] * SIZE
    assert pulled.target.tolist() == [1.0] * SIZE
    assert (pulled.slots == 7).all()
    assert pulled.steps == 2
    assert (pulled.seed != first.seed).any()
    empty = worker.report()
    assert empty.counters == got.counters
    assert empty.bytes_pulled == 2 * (HEADER + 64)
    for name in ("pushes", "updates", "env_steps", "episodes", "return_sum", "td_loss", "push_max"):
        assert getattr(empty, name) == 0, name
    worker.host.close()


def test_each_push_has_the_steps_since_the_last_and_a_ticket_of_its_own(opened: Open) -> None:
    worker = opened(update_period=3, min_replay_size=2)  # 3 steps of 2 environments for 2 updates
    headers = []
    for _ in range(2):
        verdict = worker.exchange()
        headers.append(messages.unpack(PushHeader, worker.packed.header))
    # Three of the toy's four steps; then the fourth, a reset, and a step.
    assert [(each.env_steps, each.episodes) for each in headers] == [(6, 0), (4, 2)]
    assert [each.base_version for each in headers] == [0, 1]
    assert [each.ticket for each in headers] == [1, 2]
    assert len({each.attempt for each in headers}) == 1
    assert (verdict.env_steps, verdict.episodes) == (10, 2)
    # The report has all of the closure.
    assert (worker.report().env_steps, worker.report().env_steps) == (10, 0)
    worker.oldest = 9
    worker.begin()
    assert worker.exchange().duplicate == 0
    again = messages.unpack(PushHeader, worker.packed.header)
    assert (again.ticket, again.oldest) == (11, 9)
    assert again.attempt != headers[0].attempt


@pytest.mark.usefixtures("looks_back_on_three_rounds")
def test_fractions_of_a_step_are_made_for_a_later_push(opened: Open) -> None:
    # A push of 2 updates beside another worker's brings 1 sequential update, so 1 environment step
    # is to be made for it: half a step of 2 environments.
    worker = opened(num_workers=2, update_period=1, min_replay_size=2)
    made = []
    for _ in range(10):
        pulled = worker.pull()
        made.append(worker.collect() if pulled.acting.should_act else 0)
        worker.sample()
        worker.pack(0.0)
        worker.push()
    # First until replay is warm. From the seventh pull on nobody else has pushed for long, so all
    # of the steps are this worker's.
    assert made == [2, 1, 0, 1, 0, 1, 1, 1, 1, 1]


def test_steps_below_one_for_each_update_are_made(opened: Open) -> None:
    # 2 updates with half a step each are 1 step, half a step of 2 environments.
    worker = opened(update_period=0.5, min_replay_size=2)
    headers = []
    for _ in range(9):
        worker.exchange()
        headers.append(messages.unpack(PushHeader, worker.packed.header))
    # The toy's fourth step ends its episode, and what follows is a reset, which is no step.
    assert [each.env_steps for each in headers] == [4, 2, 0, 2, 0, 0, 0, 2, 0]


NOT_FINITE = {
    "nan": [1, np.nan, 1, 1, 1],
    "infinite": [1, 1, 1, 1, np.inf],
    "both infinities": [np.inf, 1, 1, 1, -np.inf],
}


@pytest.mark.parametrize("lossy", [{}, {"push_wire_dtype": "int8"}, {"push_top_k": 0.4}], ids=str)
@pytest.mark.parametrize("vector", NOT_FINITE.values(), ids=NOT_FINITE)
def test_what_is_not_finite_stays_on_the_worker(
    opened: Open, vector: list[float], lossy: dict[str, Any]
) -> None:
    first = [0.013, -1.0, 0.4, 0.21, 0.09]
    worker, twin = opened(**lossy), opened(**lossy)
    for each in (worker, twin):
        each.exchange(first, slots=7.0)
        each.report()
    sent = [part.tolist() for part in worker.packed.messages]
    online = worker.online()

    worker.begin()
    worker.pull()
    parts = worker.pack(vector, slots=np.nan, loss=2.0).messages
    assert [len(part) for part in parts] == [0, 0], "the vector does not travel"
    verdict = worker.push()
    assert verdict.kind == Kind.WITHHELD
    assert verdict.version == 1, "no version is made"
    assert verdict.updates == 2, "nothing is counted as learned"
    got = worker.report()
    assert (got.pushes, got.refused) == (0, 0)
    assert (got.withheld_not_finite, got.withheld_outliers) == (1, 0)
    assert got.updates == 2, "made, though not applied"
    assert (got.td_loss, got.q_values, got.grad_norm) == (0, 0, 0), "no mean becomes NaN by it"

    worker.begin()
    pulled = worker.pull()
    assert pulled.online.tolist() == online.tolist()
    assert (pulled.slots == 7).all(), "the optimizer forgets it too"
    assert pulled.steps == 2
    # What the first push left out still goes with the next: both send the same now.
    twin.begin()
    twin.pull()
    packed = [each.pack(first).messages for each in (worker, twin)]
    for one, other in zip(*packed, strict=True):
        assert one.tolist() == other.tolist()
    repeated = [part.tolist() for part in packed[0]] == sent
    assert repeated == (not lossy)
    worker.push()
    assert np.isfinite(worker.online()).all()


def test_a_loss_that_is_not_finite_is_withheld_too(opened: Open) -> None:
    worker = opened()
    worker.exchange(1.0, loss=np.nan)
    assert worker.report().withheld_not_finite == 1
    worker.exchange(1.0, loss=1.0)
    assert worker.report().pushes == 1, "and does not spoil the gate"


@pytest.mark.parametrize(("gate", "withheld"), [(0.0, 0), (3.0, 1)])
def test_outliers_are_withheld_where_the_gate_is_set(
    opened: Open, gate: float, withheld: int
) -> None:
    worker = opened(outlier_gate=gate, min_replay_size=2)
    losses = [1.0, 1.2] * 15
    for loss in losses:
        worker.exchange(0.0, slots=7.0, loss=loss)
    assert worker.report().pushes == 30
    # The gate judges means over the updates: sums of 1 and 1.2 are means of 0.5 and 0.6 with a
    # deviation of 0.05; 100 is far out.
    env_steps = worker.shards[0].tally()["env_steps"]
    verdict = worker.exchange(4.0, slots=-1.0, loss=100.0)
    got = worker.report()
    assert (got.withheld_outliers, got.withheld_not_finite) == (withheld, 0)
    assert got.pushes == 1 - withheld
    assert got.td_loss == 100, "it is measured all the same"
    assert verdict.env_steps == env_steps + got.env_steps, "the steps were made"
    assert verdict.version == 31 - withheld
    pulled = worker.pull()
    assert (pulled.slots == (7 if withheld else -1)).all()
    assert pulled.steps == 2 * (31 - withheld)


def test_refused_pushes_and_staleness_are_reported(opened: Open) -> None:
    worker = opened(max_staleness=2, outer_learning_rate=1.0, outer_momentum=0.0, min_replay_size=2)
    other = opened(1)
    other.shards = worker.shards
    for age in (0, 1, 2, 3, 4):
        worker.pull()
        worker.collect()
        worker.pack(100.0)
        for _ in range(age):
            assert other.exchange(1.0).kind == Kind.APPLIED
        verdict = worker.push()
        assert verdict.staleness == age
        assert verdict.kind == (Kind.APPLIED if age <= 2 else Kind.STALE)
    got = worker.report()
    assert (got.pushes, got.refused, got.withheld) == (3, 2, 0)
    assert (got.staleness, got.staleness_max) == (0 + 1 + 2 + 3 + 4, 4)
    assert got.decided == got.exchanges == 5
    assert got.updates == 10
    online = worker.online()
    assert online.tolist() == [1.0 + 3 * 100.0 + 10 * 1.0] * SIZE
    tally = worker.shards[0].tally()
    assert tally["updates"] == 2 * (3 + 10), "refused ones are not counted as learned"
    assert worker.report().staleness_max == 0


def test_a_push_that_was_decided_before_is_no_push(opened: Open) -> None:
    worker = opened(outer_learning_rate=1.0, outer_momentum=0.0)
    assert worker.exchange(1.0).duplicate == 0
    # The closure runs again: the same tickets.
    worker.ticket = 1
    worker.begin()
    verdict = worker.exchange(1.0)
    assert (verdict.kind, verdict.duplicate) == (Kind.APPLIED, 1)
    got = worker.report()
    assert (got.pushes, got.refused) == (1, 1)
    assert worker.online().tolist() == [2.0] * SIZE


def test_in_sync_it_waits_for_the_others(opened: Open) -> None:
    sync = {"aggregation": "sync", "num_workers": 2, "total_env_steps": 60}
    sync |= {"outer_learning_rate": 1.0, "outer_momentum": 0.0}
    worker, other = opened(0, **sync), opened(1, **sync)
    other.shards = worker.shards
    worker.exchange(1.0)
    pulled = worker.pull()
    assert pulled.status == Status.WAIT
    other.exchange(3.0)
    pulled = worker.pull()
    assert pulled.status == Status.READY
    assert pulled.online.tolist() == [1.0 + 2.0] * SIZE, "the mean"
    assert worker.report().time_waiting > 0
    worker.collect()
    worker.pack(1.0)
    worker.push()
    while other.exchange(1.0).env_steps < 60:
        worker.exchange(1.0)
    # The run is over: the closure ends without another push.
    pulled = worker.pull()
    assert (pulled.status, pulled.acting.should_act) == (Status.FINISHED, 0)
    sampled = worker.sample()
    assert sampled.should_push == 0
    assert not any(array.any() for array in sampled.batch)
