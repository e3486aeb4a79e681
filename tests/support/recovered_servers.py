"""Parameter servers that are lost at any moment, and workers that keep their pushes."""

import random

import numpy as np

from ps_dqn.coordinator.keeping import recovery
from ps_dqn.parameter_server import standing
from ps_dqn.state import State
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, Verdict
from ps_dqn.worker.calls import Rejoin
from ps_dqn.worker.pushes.parameter_client import ParameterClient, Parameters
from ps_dqn.worker.pushes.recovery import Recovery
from ps_dqn.worker.tally import Tally
from support.several_servers import SIZE, Servers

PUSHES = 3  # of a closure


class Stations:
    """Servers as the coordinator reaches them, in one session after the other."""

    def __init__(self, num_ps: int, num_workers: int, **options):
        self._make = lambda session: Servers(
            num_ps, num_workers, np.linspace(-1, 1, SIZE, dtype=np.float32), session, **options
        )
        self.num_ps = num_ps
        self.begin(1, None)

    def begin(self, session: int, state: State | None) -> None:
        """Others take the place of those that were lost."""
        self.session, self.log_id = session, session
        self.servers = self._make(session)
        if state is None:
            return
        self.log_id = standing.log_id(state.log)
        cuts = np.cumsum(self.servers.sizes)[:-1]
        vectors, numbers, log = state.as_arrays()
        parts = np.split(vectors, cuts, axis=1)
        for shard, part in zip(self.servers.shards, parts, strict=True):
            shard.restore(State.from_arrays(part, numbers, log.encode()))

    def snapshot(self) -> State:
        self.servers.mark()
        parts = [shard.checkpoint().as_arrays() for shard in self.servers.shards]
        assert len({log for *_, log in parts}) == 1, "all servers follow one log"
        vectors = np.concatenate([each for each, *_ in parts], axis=1)
        return State.from_arrays(vectors, parts[0][1], parts[0][2].encode())

    def push_now(self, header: np.ndarray, packed) -> Verdict:
        verdict = self.servers.decide(header, self.servers.stage(header, packed))
        self.servers.follow(verdict)
        return messages.unpack(Verdict, verdict)

    def go_on(self) -> None:
        known = min(shard.next_index() for shard in self.servers.shards)
        self.servers.follow(self.servers.shards[0].mark(Kind.AWAY, known))


class Fleet:
    """Workers whose pushes follow from what they pull, and a coordinator that recovers."""

    def __init__(self, seed: int, num_ps: int, num_workers: int, most: int, **options):
        self.rng = random.Random(seed)
        self.stations = Stations(num_ps, num_workers, **options)
        self.most = most  # pushes of each worker
        servers, config = self.stations.servers, self.stations.servers.config
        self.clients = [
            ParameterClient(
                *(config.parameter_server, 1, i, servers.sizes, True, config.resets),
                prunes=config.pruning.is_on,
            )
            for i in range(num_workers)
        ]
        self.sides = [Recovery(client, Tally(), 1) for client in self.clients]
        self.made = [0] * num_workers
        self.log: dict[int, tuple[np.ndarray, list]] = {}  # pushes by number
        self.newest = self.stations.snapshot()
        self.next_ticket, self.losses = 1, 0
        self.closures: dict[int, object] = {}
        self.again = self.lost = 0

    def run(self, losses: float, snapshots: float) -> None:
        """Until every worker has made its pushes; shares of the steps that are followed by each."""
        while self.closures or any(made < self.most for made in self.made):
            worker = self.rng.randrange(len(self.clients))
            if worker in self.closures:
                if next(self.closures[worker], "end") == "end":
                    del self.closures[worker]
            elif self.made[worker] < self.most:
                self.closures[worker] = self._steps(worker)
            chance = self.rng.random()
            if chance < losses:
                self.rng.choice([self.lose_servers, self.lose_the_coordinator])()
            elif chance < losses + snapshots:
                self.newest = self.stations.snapshot()

    def lose_servers(self) -> None:
        """All that the servers hold is gone; others begin with the newest snapshot."""
        self._go_on_with(self.newest)

    def lose_the_coordinator(self) -> None:
        """Its snapshot is gone; the servers are asked what they hold."""
        self.newest = self.stations.snapshot()
        self._go_on_with(self.newest)

    def _go_on_with(self, state: State) -> None:
        self.losses += 1
        self.closures.clear()
        heard = self.stations.servers.tallies()[0]["version"]
        session = 1 + self.losses
        self.stations.begin(session, state)
        rejoin = Rejoin(session, self.stations.log_id, "run", "", (), 1)
        is_synchronous = self.stations.servers.config.parameter_server.is_synchronous
        recovered = recovery.push_again(self.stations, self, state, rejoin, is_synchronous, heard)
        assert recovered.first_ticket <= self.next_ticket
        self.again += recovered.again
        self.lost += recovered.lost

    # What `recovery.Workers` asks.

    def rejoin(self, rejoin: Rejoin) -> dict[int, np.ndarray]:
        joined = [side.go_on(rejoin.session, rejoin.log_id) for side in self.sides]
        return dict(enumerate(joined))

    def kept(self, worker: int, place: int) -> list[np.ndarray]:
        several = list(self.sides[worker].kept(np.int64(place), np.int64(2**24)))
        return recovery.messages_of(several)[0]

    def pushed_again(self, worker: int, place: int, verdict: Verdict) -> None:
        kept = self.clients[worker].kept[place]
        self._note(kept.header, list(kept.messages), verdict)
        self.sides[worker].pushed_again(np.int64(place), messages.pack(verdict))

    def _steps(self, worker: int):
        """A closure, which may be left at every yield."""
        servers, client = self.stations.servers, self.clients[worker]
        client.begin(self.next_ticket, 0, standing.pushes(self.newest.log))
        self.next_ticket += PUSHES
        for _ in range(PUSHES):
            while not isinstance(pulled := servers.pull(client), Parameters):
                yield "waits"
            if self.made[worker] == self.most:
                return
            yield "pulled"
            vector = self._learn(worker, pulled.online)
            header, packed = client.pack(vector, Kind.APPLIED, 2, 16, 1, 0.1, growth=-vector)
            self.made[worker] += 1
            lacking = []
            yield "packed"
            for shard, message in zip(servers.shards, packed, strict=True):
                lacking.append(shard.stage(header, message))
                yield "staged"
            numbers = servers.decide(header, lacking)
            verdict = messages.unpack(Verdict, numbers)
            self._note(header, packed, verdict)
            yield "decided"
            for shard in servers.shards[1:]:
                shard.follow(numbers)
                yield "followed"
            client.pushed(verdict)
            yield "pushed"

    def _learn(self, worker: int, online: np.ndarray) -> np.ndarray:
        """A change that follows from worker, push and parameters alone, float32 [SIZE]."""
        noise = np.random.default_rng([worker, self.made[worker]]).normal(size=SIZE)
        return (0.1 * noise - 0.01 * online).astype(np.float32)

    def _note(self, header: np.ndarray, packed: list, verdict: Verdict) -> None:
        assert verdict.number >= 0, "no push is made twice here"
        self.log[verdict.number] = header, packed
