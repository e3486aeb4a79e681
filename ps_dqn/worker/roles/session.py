"""One worker's part in a run: it collects, hands out minibatches, and does its side of a push.

Closures that run on this worker call its methods: `begin`, then for each push `pulled`, `plan`,
`step`…, `sample`, `pack`, `pushed`; `report` ends the closure. Where environments are stepped while
it learns, `step`… and `prepare` follow `sample`, and `pack`, `pushed` and the next `pulled` may run
beside them on another thread. So what these three leave is taken up by `plan` and `report`, which
come after them. `calls` has what all of them exchange.
"""

import contextlib
import pathlib

import numpy as np

from ps_dqn.config import Config
from ps_dqn.learning.result import Learned
from ps_dqn.moments import Moments
from ps_dqn.replay.batch import Batch
from ps_dqn.replay.samplers import NothingToDrawError
from ps_dqn.state import Counters
from ps_dqn.telemetry import memory
from ps_dqn.telemetry.figures import WorkerFigures
from ps_dqn.telemetry.ledger import WorkerLedger
from ps_dqn.telemetry.report import Report
from ps_dqn.wire import encoding, messages
from ps_dqn.wire.messages import Kind, Status, Verdict
from ps_dqn.worker import calls
from ps_dqn.worker.calls import Acting, Packed, Plan, Pulled, Reported, Sampled, Sizes, Tickets
from ps_dqn.worker.playing import in_numpy, schedules
from ps_dqn.worker.playing.actor import Actor
from ps_dqn.worker.pushes import replica_client
from ps_dqn.worker.pushes.loss_scale import LossScale
from ps_dqn.worker.pushes.optimizer_state import LocalOptimizer
from ps_dqn.worker.pushes.outlier_gate import Admission
from ps_dqn.worker.pushes.parameter_client import Parameters
from ps_dqn.worker.pushes.push_under_way import PushUnderWay
from ps_dqn.worker.pushes.recovery import Recovery
from ps_dqn.worker.roles.departure import Departure
from ps_dqn.worker.tally import Tally


class Session:
    """One worker's part in a run."""

    def __init__(
        self,
        config: Config,
        session: int,
        log_id: int,
        worker: int,
        sizes: Sizes,
        actor: Actor,
        folder: pathlib.Path | None,
        loss_scale: int = 1,
    ):
        """Reads the local optimizer if it was saved.

        Args:
            config: the experiment.
            session: of the run.
            log_id: of its servers' log.
            worker: index.
            sizes: of the run.
            actor: what collects, and remembers what is learned from.
            folder: where the optimizer is kept; None keeps it in memory.
            loss_scale: to begin with, where there is one.
        """
        self._config, self._worker = config, worker
        self.actor = actor
        # Its seeds are TensorFlow's, of acting and learning.
        self._push = PushUnderWay(config.run.seed, worker)
        self._has_started = False
        shards = messages.shard_sizes(sizes.num_parameters, sizes.num_ps)
        self._client = replica_client.make(config, session, worker, shards)
        self._no_parameters = encoding.zeros(sizes.num_parameters)
        self.tally, self._departure = Tally(), Departure()
        kept = config.learning.optimizer, sizes.slots_shape, folder
        self._optimizer = LocalOptimizer(*kept, self.tally)
        self.counters = Counters(0, 0, 0, 0, 0)
        self._scheduled = schedules.at(config, 0, worker)
        self._minibatches = (config.parameter_server.local_updates, config.learning.batch_size)
        self._overlaps = config.parameter_server.overlap == "on"
        self._is_learning = False  # the minibatches of this push are drawn
        self._acts_first = False  # nothing is learned before something was collected
        self._is_finished = False  # the closure is to end without another push
        self.pending = self._episodes = 0  # env steps; collected before this push, not pushed yet
        self._num_moments = sizes.num_moments
        self._seen = Moments(self._num_moments)  # likewise
        self._parameters: Parameters | None = None  # pulled, and no plan made for them yet
        self._errors: np.ndarray | None = None  # learned from, and not told to replay yet
        self._admission = Admission(config.parameter_server, self.tally)
        self._loss_scale = LossScale(config.precision, loss_scale, self.tally)
        self.recovery = Recovery(self._client, self.tally, log_id)
        self._ledger = WorkerLedger()
        self.figures = self._figures()

    def begin(self, tickets: Tickets) -> np.ndarray:
        """Starts a closure; returns the first pull's requests, int64 [num_ps, fields]."""
        self._departure.closure_began()
        self.tally.join()  # what a closure that was cut off has left
        self._parameters = None
        if self.recovery.has_gone_on() or not self._ledger.num_reports:
            self.tally.start_clock(then="pull")
        else:
            self.tally.lap("dispatch", then="pull")
        self._client.begin(tickets.first, tickets.oldest, tickets.safe)
        return self._client.requests()

    def cut_off(self) -> None:
        """No closure is under way any more, whatever has become of the last one."""
        self._departure.closure_ended()

    def leave(self) -> None:
        """Ends the closure that runs with the push that it is at; returns when that is known."""
        self._departure.begin()

    def pulled(self, *replies: np.ndarray) -> Pulled:
        """Takes the servers' replies, uint8 each."""
        answer = self._client.pulled(replies)
        if self._departure.has_begun:
            answer = Status.FINISHED
        if isinstance(answer, Status):
            self.tally.lap_beside("waiting", then="waiting")
            nothing = self._no_parameters
            return Pulled(np.int32(answer), nothing, nothing, self._client.mask)
        self.tally.exchanged("pull", then="acting")
        self._parameters = answer
        return Pulled(np.int32(Status.READY), answer.online, answer.target, answer.mask)

    def plan(self, status: np.ndarray) -> Plan:
        """What is to be done until the next pull, after one of this `Status`."""
        self._join()
        self._is_finished = int(status) == Status.FINISHED
        self._is_learning = False
        if self._parameters is not None:
            self.counters = self._parameters.counters
            self._scheduled = schedules.at(self._config, self.counters.env_steps, self._worker)
            updates = self.counters.sequential_updates
            self._optimizer.follow(self._config.resets.number(updates))
            if self._config.resets.anneal:
                self.actor.memory.look_ahead(*schedules.horizon(self._config, updates))
            if not self._has_started and (made := self.counters.env_steps):
                self.actor.start(made)
                self._push.start(made)
            self._has_started = True
            if self._push.begin(self._vector_steps(self._parameters.workers)):
                self.actor.begin(self._push)
            self._parameters = None
        return Plan(
            slots=self._optimizer.slots,
            steps=np.float32(self._optimizer.steps),
            learning_rate=np.float32(self._scheduled.learning_rate),
            epsilon=np.float32(self._scheduled.epsilons.mean()),
            seed=self._push.seed,
            loss_scale=self._loss_scale.numbers,
            acting=self._acting(),
        )

    def step(self, *arrays: np.ndarray) -> Acting:
        """Acts once in every environment, from the fields of `Acted`."""
        acted = calls.Acted(*arrays)
        self.tally.lap("acting", then="environment")
        self._push.stepped(self.actor.step(acted, self._scheduled.epsilons))
        self.tally.lap("environment", then="acting")
        return self._acting()

    def steps(self, online: np.ndarray, program: bytes) -> Acting:
        """Acts with parameters float32 [P] as often as is due: see `in_numpy`."""
        acting, step = self._acting(), lambda acted: self.step(*acted)
        return in_numpy.steps(program, online, acting, step, lambda each: each.should_act > 0)

    def sample(self) -> Sampled:
        """Draws the minibatches of all local updates."""
        batch = None if self._is_finished else self._drawn()
        self._is_learning = True
        self.tally.lap("sampling", then="gradient")
        return Sampled(np.int32(batch is not None), batch or self.actor.nothing, self._acting())

    def prepare(self) -> np.ndarray:
        """Draws the minibatches of the next push, while these are learned from; returns a mark."""
        if not self._is_finished:
            with contextlib.suppress(NothingToDrawError):  # `sample` tries again
                self.actor.memory.prepare(*self._minibatches, self._scheduled.progress)
        self.tally.lap("sampling", then="gradient")
        return np.array(1, np.int32)

    def pack(self, *arrays: np.ndarray) -> Packed:
        """Decides whether what was learned, the fields of `Learned`, is pushed, and packs it."""
        learned = Learned(*arrays)
        self._push.packed()
        kind, updates = self._judged(learned)
        counts = updates, self.pending, self._episodes
        rate, seen = self._scheduled.learning_rate, self._seen.as_numbers()
        whole = learned.vector, kind, *counts, rate, seen, learned.growth
        header, packed = self._client.pack(*whole)
        self.pending = self._episodes = 0
        self._seen = Moments(self._num_moments)
        self.tally.lap_beside("gradient", then="push")
        return Packed(header, packed)

    def pushed(self, numbers: np.ndarray) -> np.ndarray:
        """Takes the `Verdict`, int64 [fields]; returns the next pull's requests."""
        verdict = messages.unpack(Verdict, numbers)
        self._client.pushed(verdict)
        self.counters = Counters(*(getattr(verdict, name) for name in Counters._fields))
        self.tally.judged(verdict)
        self.tally.exchanged("push", then="pull")
        return self._client.requests()

    def report(self) -> Reported:
        """Ends a closure: saves the local optimizer, and says what was done since the last."""
        self._join()
        self._gather()
        if self._optimizer.save():
            self.tally.lap("gradient", then="gradient")
        fields = self.tally.take()
        fields |= {f"run_{name}": value for name, value in self.counters._asdict().items()} | {
            "worker": self._worker,
            "bytes_pulled": self._client.bytes_pulled,
            "bytes_pushed": self._client.bytes_pushed,
            "epsilon": self._scheduled.epsilons.mean(),
            "loss_scale": self._loss_scale.value,
            "sparsity": self._client.sparsity,
            "replay_size": self.actor.memory.size,
            "memory": memory.used(),
        }
        self._client.bytes_pulled = self._client.bytes_pushed = 0
        report = Report(**fields)
        self._ledger.add(report)
        self.figures = self._figures()
        self.tally.enter("dispatch")
        self._departure.closure_ended()
        return Reported(np.int32(1), np.array(report, np.float64))

    def _drawn(self) -> Batch | None:
        """Minibatches; None ends a closure whose report says that the environments failed."""
        draw = self.actor.memory.sample
        batch = self._push.batch(lambda: draw(*self._minibatches, self._scheduled.progress))
        if batch is None and not any(self.actor.environments.failures.values()):
            raise NothingToDrawError
        self._acts_first = self._is_finished = batch is None
        self._gather()
        return batch

    def _vector_steps(self, workers: int) -> float:
        """Steps of the environments for a push, where so many workers push."""
        return self._config.vector_steps_per_push(workers)

    def _judged(self, learned: Learned) -> tuple[Kind, int]:
        """What kind of push comes of what was learned, and how many updates are in it."""
        updates = self._config.parameter_server.local_updates
        self._errors = learned.errors
        # Until the servers have heard of the environments, nothing is as it will be.
        is_settled = self.counters.env_steps > 0 or not self._num_moments
        made = self._loss_scale.take(learned.loss_scale, updates)
        if not (self._admission.admits(learned, made) and is_settled):
            return Kind.WITHHELD, updates  # the optimizer forgets it: its slots may be damaged
        self._optimizer.update(learned.slots, made)
        return Kind.APPLIED, updates

    def _figures(self) -> WorkerFigures:
        """Made anew for each report and never changed, so any thread may read them."""
        replay = self.actor.memory
        return WorkerFigures(
            env_steps=int(self._ledger.total("env_steps")),
            updates=int(self._ledger.total("updates")),
            closures=self._ledger.num_reports,
            replay_rows=replay.size,
            replay_bytes=replay.nbytes,
            phase_seconds=self._ledger.phase_seconds(),
        )

    def _join(self) -> None:
        """Takes what communication has left, which is over."""
        self.tally.join()
        if self._errors is not None:
            self.actor.memory.update_priorities(self._errors)
            self._errors = None

    def _acting(self) -> Acting:
        observations, state, masks = self.actor.acting
        # What is collected while learning cannot be learned from before; so replay gets warm first.
        waits = self._overlaps and not self._is_learning and not self._acts_first
        is_due = (self._push.steps_to_make > 0 and not waits) or not self.actor.memory.is_warm
        should_act = is_due and not self._is_finished
        is_needed = self._client.is_needed
        (is_needed.clear if should_act else is_needed.set)()
        numbers = np.int32(self._push.steps_made), np.int32(should_act)
        return Acting(observations, state, masks, *numbers)

    def _gather(self) -> None:
        """Counts what was collected."""
        gathered = self.actor.take_gathered()
        self.pending += gathered.env_steps
        self._episodes += len(gathered.returns)
        self._seen.merge(gathered.seen)
        self.tally.returns.extend(gathered.returns)
        for name, count in gathered.counts().items():
            self.tally.add(name, count)
