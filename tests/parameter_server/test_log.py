"""Several servers that follow one log: every push counts once, whoever dies when.

The crashes are simulated: workers are generators that may be left at any step between two requests.
"""

import random

import numpy as np
import pytest
from test_shard import SESSION, Server, close, start, vector
from test_sharding import SIZE, Servers

from ps_dqn.parameter_server import shard as shard_module
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PushHeader, Verdict
from ps_dqn.worker.parameter_client import ParameterClient, Parameters

PUSHES = 3  # of a closure


# One ticket.


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_ticket_counts_once(attempt):
    server = Server()
    server.push(vector(0), ticket=5, attempt=1)
    before = server.counters
    again = server.push(vector(1), ticket=5, attempt=attempt)
    assert again == Verdict(Kind.APPLIED, 1, 0, *before)
    assert server.counters == before
    assert server.pull()[1] == close(start() + vector(0))
    assert server.shard.ledger()["duplicates"] == 1
    assert server.shard.tally()["staged"] == 0


def test_a_ticket_below_the_oldest_does_not_count():
    server = Server()
    server.push(vector(0), ticket=8, oldest=6)
    assert server.push(vector(1), ticket=5).duplicate == 1
    assert server.push(vector(1), ticket=6).duplicate == 0, "it may still come"
    tally = server.shard.tally()
    assert (tally["version"], tally["sum_of_tickets"], tally["staged"]) == (2, 14, 0)
    # An older message does not lower it again.
    server.push(vector(2), ticket=9, oldest=0)
    assert server.push(vector(1), ticket=5).duplicate == 1


@pytest.mark.parametrize("refusal", [Kind.STALE, Kind.LATE, Kind.WITHHELD])
def test_a_repetition_is_told_what_became_of_the_first(refusal):
    options = {"aggregation": "sync"} if refusal is Kind.LATE else {"max_staleness": 0}
    server = Server(**options)
    server.push(vector(0))
    kind = Kind.WITHHELD if refusal is Kind.WITHHELD else Kind.APPLIED
    first = server.push(vector(1), ticket=5, base=0, kind=kind)
    assert (first.kind, first.duplicate) == (refusal, 0)
    again = server.push(vector(1), ticket=5, base=1)
    assert (again.kind, again.duplicate) == (refusal, 1)
    assert server.counters.env_steps == 32, "the steps of one attempt"


@pytest.fixture
def three() -> Servers:
    return Servers(3)


def begun(servers: Servers, ticket: int = 1, oldest: int = 0, worker: int = 0) -> ParameterClient:
    exchange = servers.connect(worker)
    exchange.begin(ticket, oldest)
    return exchange


def whole(number: float) -> np.ndarray:
    return np.full(SIZE, number, np.float32)


def test_servers_lack_the_entries_they_have_not_followed(three):
    exchange = begun(three)
    for expected in ([0, 0, 0], [1, 1, 0], [2, 2, 0]):
        header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
        lacking = three.stage(packed)
        assert lacking == expected
        verdict = three.decide(header, lacking)
        assert [each.position for each in messages.entries(verdict)] == list(
            range(min(lacking), three.shards[0].next_index())
        )
        assert three.shards[1].follow(verdict) == three.shards[0].next_index()
    assert three.shards[2].follow(verdict) == 3
    assert three.shards[2].follow(verdict) == 3, "what it has, it does not follow again"
    assert three.tallies() == [three.tallies()[0]] * 3
    assert three.mark()["online"].tolist() == whole(3).tolist()


def test_who_comes_next_brings_what_a_dead_worker_left(three):
    dead, next_one = begun(three, 1), begun(three, 2, worker=1)
    header, packed = dead.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    three.decide(header, three.stage(packed))  # and dies
    assert [tally["version"] for tally in three.tallies()] == [1, 0, 0]
    three.push(next_one, whole(10))
    assert [tally["version"] for tally in three.tallies()] == [2, 2, 2]
    assert three.mark()["online"].tolist() == whole(11).tolist()


def test_catching_up_brings_it_too(three):
    header, packed = begun(three).pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    three.decide(header, three.stage(packed))
    three.catch_up()
    assert three.tallies() == [three.tallies()[0]] * 3
    assert three.mark()["online"].tolist() == whole(1).tolist()


@pytest.mark.parametrize("staged", [0, 1, 2, 3])
def test_a_push_that_was_not_decided_counts_by_its_next_attempt(three, staged):
    exchange = begun(three)
    _, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    for shard, message in list(zip(three.shards, packed, strict=True))[:staged]:
        shard.stage(message)
    assert three.push(begun(three), whole(10)).duplicate == 0
    assert three.mark()["online"].tolist() == whole(10).tolist()
    assert [tally["staged"] for tally in three.tallies()] == [0, 0, 0]


@pytest.mark.parametrize("oldest", [0, 5])
def test_a_late_attempt_changes_nothing(three, oldest):
    # Its ticket was decided, or is below what may still come; it has slept since before that.
    zombie, rerun = begun(three), begun(three)
    header, packed = zombie.pack(whole(100), Kind.APPLIED, 9, 99, 9, 0.1)
    lacking = three.stage(packed)
    three.push(rerun, whole(1))
    three.push(begun(three, 5, oldest), whole(10))
    before = three.tallies()
    lacking = three.stage(packed) if oldest else lacking
    verdict = three.decide(header, lacking)
    three.follow(verdict)
    assert messages.unpack(Verdict, verdict).duplicate == 1
    assert three.tallies() == before
    assert three.mark()["online"].tolist() == whole(11).tolist()


def test_a_repetition_leaves_nothing_staged_on_any_server(three):
    three.push(begun(three), whole(1))
    three.push(begun(three), whole(10))
    assert [tally["staged"] for tally in three.tallies()] == [0, 0, 0]


def test_a_push_of_another_run_is_neither_kept_nor_decided(three):
    stranger = ParameterClient(three.config.parameter_server, SESSION + 1, 0, three.sizes)
    stranger.begin(1, 50)
    before = three.tallies()
    assert three.push(stranger, whole(1)).duplicate == 1
    assert three.tallies() == before
    assert three.push(begun(three), whole(1)).duplicate == 0


def test_a_gap_in_the_log_is_an_error(three):
    exchange = begun(three)
    three.push(exchange, whole(1))
    header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    three.stage(packed)
    three.decide(header, [1])
    header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    three.stage(packed)
    with pytest.raises(RuntimeError, match="goes on at 2, this server lacks 1"):
        three.shards[1].follow(three.decide(header, [2]))


def test_a_server_too_far_behind_is_an_error(monkeypatch):
    monkeypatch.setattr(shard_module, "LOG_LENGTH", 3)
    servers = Servers(2)
    exchange = begun(servers)
    for _ in range(3):
        header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
        servers.stage(packed)
        servers.decide(header, [servers.shards[0].next_index()])
    servers.shards[0].entries(0)
    header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    lacking = servers.stage(packed)
    with pytest.raises(RuntimeError, match="lacks entry 0 of the log, which is gone"):
        servers.decide(header, lacking)


def test_a_single_server_sends_no_log():
    server = Server()
    server.push(vector(0))
    assert len(server.shard.entries(0)) == len(Verdict._fields)


def test_a_mark_is_of_one_moment_on_all_servers():
    servers = Servers(3, average_decay=0.5)
    exchange = begun(servers)
    first, second = servers.shards[0], servers.shards[1:]
    for number in (1, 10):
        header, packed = exchange.pack(whole(number), Kind.APPLIED, 2, 16, 1, 0.1)
        lacking = servers.stage(packed)
        servers.decide(header, lacking)
        if number == 1:  # the others have not heard of anything yet
            first.mark(Kind.FREEZE, 0)
            first.mark(Kind.CHECKPOINT, 0)
    for shard in second:
        shard.follow(first.entries(0))
    assert servers.states()["online"].tolist() == whole(1).tolist()
    assert servers.states()["average"].tolist() == whole(0.75).tolist()
    assert [shard.frozen().tolist() for shard in second] == [[0.75] * 2] * 2
    assert first.frozen().tolist() == [0.75] * 3
    assert {shard.checkpoint().counters for shard in servers.shards} == {(1, 2, 16, 1)}


# Thousands of crashes.


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
                verdict = servers.shards[0].push(packed[0])
            else:
                lacking = []
                for i in rng.sample(range(len(packed)), len(packed)):
                    lacking.append(servers.shards[i].stage(packed[i]))
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


@pytest.mark.parametrize("options", [{}, {"max_staleness": 2}], ids=["", "max_staleness"])
@pytest.mark.parametrize("num_ps", [1, 2, 3])
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
        "entries": len(tickets) + 1,
        "applied": len(applied) + 1,
        "sum_of_tickets": sum(applied) + tickets[-1] + 1,
        "staged": 0,
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
        message = messages.new(header, 4 * SIZE)
        message[messages.HEADER :].view(np.float32)[:] = pushed
        one.shards[0].push(message)
    ours, wanted = simulation.servers.mark(), one.mark()
    for name in ("online", "target", "average"):
        assert ours[name].tobytes() == wanted[name].tobytes()
        assert ours[name].any()
