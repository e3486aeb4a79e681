"""Thousands of crashes: every push counts once, whoever dies when.

They are simulated: workers are generators that may be left at any step between two requests.
"""

import fractions
import itertools
import math
import random

import numpy as np
import pytest
from support.several_servers import SIZE, Servers, begun, whole
from support.tiers import tiered

from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PushHeader, Verdict
from ps_dqn.worker.pushes.parameter_client import Parameters

PUSHES = 3  # of a closure


class Closure:
    """Tickets that are to be used up, as the coordinator hands them out."""

    def __init__(self, ticket: int, oldest: int):
        self.ticket, self.oldest = ticket, oldest


class Simulation:
    """Workers that run closures, die anywhere, and are sometimes only thought to be dead."""

    def __init__(self, servers: Servers, num_workers: int, closures: int, seed: int):
        self.servers, self.num_workers = servers, num_workers
        self.rng = random.Random(seed)
        self.unsent = [1 + PUSHES * i for i in range(closures)]
        self.queue: list[Closure] = []
        self.open: list[int] = []  # first tickets of closures that have not ended
        self.running: dict[int, tuple[Closure, object]] = {}
        self.zombies: list[object] = []
        self.exchanges = [servers.connect(worker) for worker in range(num_workers)]
        self.decided: dict[int, tuple[Kind, PushHeader, np.ndarray]] = {}
        self.order: list[int] = []
        self.crashes = self.repetitions = 0
        self.died_at: set[str] = set()

    def run(self, share: float) -> None:
        """Runs all closures to their end; `share` of the steps are a worker's last."""
        while self.unsent or self.queue or self.running:
            self._submit()
            worker = self.rng.randrange(self.num_workers)
            if self.zombies and self.rng.random() < 0.1:
                self._wake_a_zombie()
            elif worker not in self.running:
                if self.queue:
                    closure = self.queue.pop(0)
                    self.running[worker] = closure, self._steps(worker, closure)
            else:
                self._step(worker, share)
        while self.zombies:
            self._wake_a_zombie()
        self.servers.catch_up()

    def _submit(self) -> None:
        while self.unsent and len(self.open) < 2 * self.num_workers:
            ticket = self.unsent.pop(0)
            self.open.append(ticket)
            self.queue.append(Closure(ticket, self.open[0]))

    def _step(self, worker: int, share: float) -> None:
        closure, steps = self.running[worker]
        place = next(steps)
        if place == "end":
            del self.running[worker]
            self.open.remove(closure.ticket)
        elif self.rng.random() < share:
            self.crashes += 1
            self.died_at.add(place)
            del self.running[worker]
            self.queue.insert(0, closure)
            # Whoever comes back knows nothing of what was before.
            self.exchanges[worker] = self.servers.connect(worker)
            if self.rng.random() < 0.3:
                self.zombies.append(steps)
            if self.rng.random() < 0.3:
                self.servers.catch_up()

    def _wake_a_zombie(self) -> None:
        place = self.rng.randrange(len(self.zombies))
        if next(self.zombies[place]) == "end" or self.rng.random() < 0.1:
            del self.zombies[place]

    def _steps(self, worker: int, closure: Closure):
        """A closure: yields where it is whenever it may be left there."""
        servers, rng, exchange = self.servers, self.rng, self.exchanges[worker]
        exchange.begin(closure.ticket, closure.oldest)
        for _ in range(PUSHES):
            if not isinstance(servers.pull(exchange), Parameters):
                break
            yield "before staging"
            # Another attempt has other data. Whole numbers: their sums are exact in any order.
            pushed = np.array([rng.randrange(-8, 9) for _ in range(SIZE)], np.float32)
            kind = Kind.WITHHELD if rng.random() < 0.1 else Kind.APPLIED
            counts = rng.randrange(1, 4), rng.randrange(1, 40), rng.randrange(3)
            header, packed = exchange.pack(pushed, kind, *counts, 0.1)
            if len(servers.shards) == 1:
                verdict = servers.shards[0].push(header, packed[0])
            else:
                lacking = []
                for i in rng.sample(range(len(packed)), len(packed)):
                    lacking.append(servers.shards[i].stage(header, packed[i]))
                    yield f"staged on {len(lacking)}"
                verdict = servers.decide(header, lacking)
            self._on_verdict(messages.unpack(PushHeader, header), pushed, verdict)
            yield "decided"
            for i in rng.sample(range(1, len(packed)), len(packed) - 1):
                servers.shards[i].follow(verdict)
                yield f"followed {i}"
            exchange.pushed(messages.unpack(Verdict, verdict))
        yield "before the result"
        while True:
            yield "end"

    def _on_verdict(self, header: PushHeader, pushed: np.ndarray, numbers: np.ndarray) -> None:
        verdict = messages.unpack(Verdict, numbers)
        if verdict.duplicate:
            self.repetitions += 1
            return
        assert header.ticket not in self.decided, "decided twice"
        self.decided[header.ticket] = Kind(verdict.kind), header, pushed
        self.order.append(header.ticket)


def simulate(num_ps: int, seed: int, closures: int = 250, **options) -> Simulation:
    simulation = Simulation(Servers(num_ps, 4, **options), 4, closures, seed)
    simulation.run(share=0.25 if num_ps == 1 else 0.1)
    return simulation


def sequential_updates(simulation: Simulation, last_worker: int) -> int:
    """Each applied push is worth its 2 updates over the workers of the last 12 pushes, of 4."""
    decided = [simulation.decided[ticket] for ticket in simulation.order]
    workers = [header.worker for _, header, _ in decided] + [last_worker]
    are_applied = [kind is Kind.APPLIED for kind, _, _ in decided] + [True]
    total = fractions.Fraction(0)
    for i in itertools.compress(range(len(workers)), are_applied):
        pushing = 4 if i < 11 else len(set(workers[i - 11 : i + 1]))
        total += fractions.Fraction(2, pushing)
    return math.floor(total)


@pytest.mark.usefixtures("looks_back_on_three_rounds")
@pytest.mark.parametrize("options", [{}, {"max_staleness": 2}], ids=["", "max_staleness"])
@pytest.mark.parametrize("num_ps", tiered([1, 2, 3], quick=(1, 2), slow=(3,)))
def test_every_push_counts_once_whoever_dies_when(num_ps, options):
    simulation = simulate(num_ps, seed=0, **options)
    tickets = range(1, 250 * PUSHES + 1)
    assert sorted(simulation.decided) == list(tickets)
    # Else it would prove nothing.
    assert simulation.crashes > 300
    assert simulation.repetitions > 100
    assert {"decided", "before staging", "before the result"} <= simulation.died_at
    if num_ps > 1:
        assert {f"staged on {i + 1}" for i in range(num_ps)} <= simulation.died_at
        assert {f"followed {i}" for i in range(1, num_ps)} <= simulation.died_at

    kinds = {Kind.APPLIED, Kind.WITHHELD} | ({Kind.STALE} if options else set())
    assert {kind for kind, _, _ in simulation.decided.values()} == kinds
    applied = {
        ticket: (header, pushed)
        for ticket, (kind, header, pushed) in simulation.decided.items()
        if kind is Kind.APPLIED
    }
    assert len(applied) > 100
    everyone = [header for _, header, _ in simulation.decided.values()]
    # A last closure that nobody interrupts: whatever is older may be forgotten.
    servers = simulation.servers
    last = begun(servers, tickets[-1] + 1, tickets[-1] + 1)
    servers.pull(last)
    servers.push(last, whole(0))
    expected = {
        "version": len(applied) + 1,
        "updates": sum(header.updates for header, _ in applied.values()) + 2,
        "env_steps": sum(header.env_steps for header in everyone) + 16,
        "episodes": sum(header.episodes for header in everyone) + 1,
        "sequential_updates": sequential_updates(simulation, last_worker=0),
        "entries": len(tickets) + 1,
        "applied": len(applied) + 1,
        "sum_of_tickets": sum(applied) + tickets[-1] + 1,
        "staged": 0,
        "absent": [],
    }
    assert servers.tallies() == [expected] * num_ps
    total = sum(pushed.astype(np.int64) for _, pushed in applied.values())
    assert servers.mark()["online"].tolist() == total.tolist()


@pytest.mark.parametrize("num_ps", [1, 2, 3])
def test_when_all_closures_have_ended_nothing_is_left_staged(num_ps):
    tallies = simulate(num_ps, seed=7, closures=100).servers.tallies()
    assert tallies == [tallies[0]] * num_ps
    assert tallies[0]["staged"] == 0


@pytest.mark.parametrize("num_ps", [2, 3])
def test_several_servers_do_what_one_does_to_the_last_bit(num_ps):
    # Target and average depend on the order, and so does a change with momentum.
    options = {"outer_momentum": 0.9, "average_decay": 0.9, "target_update_period": 8,
               "staleness_decay": 0.1}  # fmt: skip
    simulation = simulate(num_ps, seed=1, closures=60, **options)
    one = Servers(1, 4, **options)
    for ticket in simulation.order:
        _, header, pushed = simulation.decided[ticket]
        one.shards[0].push(messages.pack(header), messages.pack_vector(pushed, "float32"))
    ours, wanted = simulation.servers.mark(), one.mark()
    for name in ("online", "target", "average"):
        assert ours[name].tobytes() == wanted[name].tobytes()
        assert ours[name].any()
