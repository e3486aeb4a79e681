"""What the options of pull and push change, from the configuration to the servers."""

import itertools
import json
import math
import threading

import gymnasium
import numpy as np
import pytest
from support.small import SMALL, make_closures

from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.telemetry.report import Report
from ps_dqn.wire.messages import HEADER, PushHeader
from ps_dqn.worker.calls import Tickets
from ps_dqn.worker.graph.closures import read_report


class Odd(gymnasium.Env):
    """What one worker alone does not see, or should not learn."""

    # Two workers' environments meet here.
    meeting = threading.Barrier(2)

    def __init__(self, kind: str):
        self.observation_space = gymnasium.spaces.Box(0, 1, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._kind, self._steps = kind, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(3, np.float32), {}

    def step(self, action):
        self._steps += 1
        rewards = {"meeting": 1.0, "growing": 4.0**self._steps, "huge": 3e38}
        if self._kind == "meeting":
            self.meeting.wait(timeout=60)
        return np.ones(3, np.float32), rewards[self._kind], False, False, {}


gymnasium.register("TestPushOptions/Odd-v0", Odd, disable_env_checker=True)


def odd_config(kind: str, **options) -> Config:
    # One step and one update for each push, on the two newest transitions.
    rhythm = {"num_envs_per_worker": 1, "update_period": 1, "local_updates": 1, "n_step": 1}
    memory = {"replay_capacity": 3, "min_replay_size": 1}
    odd = {"env_id": "TestPushOptions/Odd-v0", "env_kwargs": json.dumps({"kind": kind})}
    return Config.from_values({**SMALL, **rhythm, **memory, **odd, **options})


def train(coordinator, closures, first: int = 1, count: int = 1, pushes: int = 1) -> list[Report]:
    """The reports of closures that are scheduled at the same time, with tickets from `first` on."""
    waiting = [
        coordinator.schedule(closures.train, args=(np.array(Tickets(first + i, 1, pushes)),))
        for i in range(count)
    ]
    values = [read_report(remote.fetch()) for remote in waiting]
    assert [error for _, error in values] == [b""] * count
    return [Report.decode(vector) for vector, _ in values]


@pytest.mark.parametrize(("bound", "applied", "refused"), [(None, 2, 0), (1, 2, 0), (0, 1, 1)])
def test_max_staleness_refuses_what_others_have_overtaken(coordinator, bound, applied, refused):
    config = odd_config("meeting", max_staleness=bound)
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    for pair in range(3):
        # Both have pulled before their environments meet, so one pushes after the other's push.
        made = train(coordinator, closures, first=1 + 2 * pair, count=2)
        assert {report.worker for report in made} == {0, 1}
        assert sorted(report.staleness for report in made) == [0, 1]
        assert sum(report.pushes for report in made) == applied
        assert sum(report.refused for report in made) == refused
    state = store.state()
    assert state.counters.version == state.counters.updates == 3 * applied
    assert state.counters.env_steps == sum(tally["env_steps"] for tally in store.tallies()) / 3 >= 6


@pytest.mark.parametrize(("gate", "withheld"), [(0.0, 0), (1.0, 10)])
def test_the_outlier_gate_keeps_back_losses_that_jump(coordinator, gate, withheld):
    config = odd_config("growing", outlier_gate=gate)
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    [report] = train(coordinator, closures, pushes=30)
    # The first 20 losses set the scale, and every later one is far beyond it.
    assert (report.withheld_outliers, report.pushes) == (withheld, 30 - withheld)
    assert store.counters().version == 30 - withheld
    assert store.counters().env_steps == report.env_steps >= 30


def test_no_number_that_is_not_finite_reaches_the_servers(coordinator):
    store, closures = make_closures(odd_config("huge", loss="squared"), 3, num_workers=2)
    before = store.state()
    [report] = train(coordinator, closures, pushes=4)
    assert (report.withheld_not_finite, report.pushes) == (4, 0)
    assert report.bytes_pushed == 4 * 3 * NUMBERS
    after = store.state()
    for name in ("online", "target", "average", "slots"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.counters == (0, 0, report.env_steps, 0, 0)


# Bytes of n numbers; int8 has a scale for each 256 of them.
NUMBERS = 8 * len(PushHeader._fields)
WIRE = {
    "float32": lambda n: 4 * n,
    "bfloat16": lambda n: 2 * n,
    "float16": lambda n: 4 + 2 * n,
    "int8": lambda n: n + 4 * math.ceil(n / 256),
}


@pytest.mark.parametrize(("pulled", "pushed"), [*itertools.pairwise([*WIRE, "float32"])])
def test_vectors_travel_as_their_wire_dtypes_say(coordinator, pulled, pushed):
    wire = {"pull_wire_dtype": pulled, "push_wire_dtype": pushed}
    config = Config.from_values({**SMALL, "local_updates": 1, **wire})
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    before = store.state().online
    [report] = train(coordinator, closures)
    # Online and target, each at a multiple of 64 bytes.
    pulls = [2 * 64 * math.ceil(WIRE[pulled](size) / 64) for size in store.sizes]
    assert report.bytes_pulled == sum(HEADER + each for each in pulls)
    assert report.bytes_pushed == sum(NUMBERS + WIRE[pushed](size) for size in store.sizes)
    assert report.pushes == 1
    # No update of Adam moves a parameter by more than its step size, which is 0.01.
    change = np.abs(store.state().online - before)
    assert 0.005 < change.max() < 0.0101


def test_the_largest_numbers_of_a_push_travel_as_push_top_k_says(coordinator):
    config = Config.from_values({**SMALL, "local_updates": 4, "push_top_k": 0.1})
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    before = store.state().online
    [report] = train(coordinator, closures)
    count = round(0.1 * len(before))
    assert np.count_nonzero(store.state().online - before) == count
    assert report.bytes_pushed == 3 * (NUMBERS + 4) + 8 * count  # a place and a number


SYNC, SINGLE_UPDATES = {"aggregation": "sync"}, {"local_updates": 1}


@pytest.mark.parametrize(
    ("option", "without", "needed"),
    [
        (
            {"backup_workers": 1},
            {"aggregation": "async"},
            "--aggregation=auto or sync or trimmed_mean or median",
        ),
        ({"max_staleness": 0}, SYNC, "--aggregation=auto or async"),
        ({"max_staleness": 3}, SYNC, "--aggregation=auto or async"),
        ({"staleness_decay": 0.5}, SYNC, "--aggregation=auto or async"),
        ({"staleness_cutoff": 4}, SYNC, "--aggregation=auto or async"),
        ({"outer_learning_rate": 0.0}, SINGLE_UPDATES, "--local_updates above 1"),
        ({"outer_learning_rate": 0.5}, SINGLE_UPDATES, "--local_updates above 1"),
        ({"outer_momentum": 0.5}, SINGLE_UPDATES, "--local_updates above 1"),
    ],
    ids=str,
)
def test_an_option_that_would_do_nothing_is_refused(option, without, needed):
    [(name, value)] = option.items()
    with pytest.raises(UsageError) as caught:
        Config.from_values({**SMALL, "local_updates": 4, **without, **option})
    line = f"--{name}={value}: has no effect without {needed}; leave it out"
    assert str(caught.value).startswith(line)
    # Where it does something it is accepted, and so is leaving it out where it does nothing.
    where = SYNC if name == "backup_workers" else {}
    Config.from_values({**SMALL, "local_updates": 4, **where, **option})
    Config.from_values({**SMALL, "local_updates": 4, **without})
