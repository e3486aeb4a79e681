"""One worker's part in a run: it collects, hands out minibatches, and does its side of a push.

Every method is called by a closure that runs on this worker, in the order of `closures.py`:
`begin`, then for each push `pulled`, `step`…, `sample`, `pack`, `pushed`; `report` ends it.

Shapes: E environments, M minibatches of B items each, P parameters, S optimizer slots.
"""

import collections
import math
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.config import Config
from ps_dqn.state import Counters
from ps_dqn.telemetry.figures import WorkerFigures
from ps_dqn.telemetry.ledger import WorkerLedger
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, Status, Verdict
from ps_dqn.wire.report import PHASES, Report
from ps_dqn.worker import optimizer_state, schedules
from ps_dqn.worker.actor import Experience
from ps_dqn.worker.outlier_gate import Gate
from ps_dqn.worker.parameter_client import Exchange


class Sizes(NamedTuple):
    """What a worker needs to know of a run beside its configuration."""

    num_workers: int
    num_ps: int
    num_parameters: int  # P
    num_slots: int  # S, of the local optimizer


class Session:
    """One worker's part in a run."""

    def __init__(
        self,
        config: Config,
        session: int,
        worker: int,
        sizes: Sizes,
        folder: pathlib.Path | None,
    ):
        """Makes the environments and the replay; see `Exchange` for what is shared.

        Args:
            config: the experiment.
            session: the run.
            worker: index.
            sizes: of the run.
            folder: where replay is kept; None keeps it in memory.
        """
        self.experience = Experience(config, worker, folder)
        self._seeds = np.random.default_rng([config.run.seed, worker, 0x5EED])
        self._config, self._worker, self._num_workers = config, worker, sizes.num_workers
        shards = messages.shard_sizes(sizes.num_parameters, sizes.num_ps)
        self._exchange = Exchange(config.parameter_server, session, worker, shards)
        self._gate = Gate(config.parameter_server.outlier_gate)
        self._nothing = np.zeros(sizes.num_parameters, np.float32)
        shape = (sizes.num_slots, sizes.num_parameters)
        self._slots, self._slot_steps = np.zeros(shape, np.float32), 0
        self._folder = folder
        if folder is not None:
            self._slots, self._slot_steps = optimizer_state.load(
                folder, config.learning.optimizer, shape
            )
        self._counters = Counters(0, 0, 0, 0)
        self._done, self._closures = WorkerLedger(), 0
        self.figures = self._figures()
        self._epsilon = self._learning_rate = math.nan
        self._progress = 0.0  # share of the run that is done
        self._steps_to_make = 0
        self._idle = False
        self._sums: dict[str, float] = collections.defaultdict(float)
        self._longest = dict.fromkeys(("staleness", "pull", "push"), 0.0)
        self._env_steps = self._episodes = 0  # collected and not pushed yet
        self._returns: list[float] = []

    @property
    def methods(self) -> dict[str, Callable[..., Sequence[Any]]]:
        """What closures call."""
        names = ("pulled", "step", "sample", "pack", "pushed", "report")
        return {name: getattr(self, name) for name in names}

    def begin(self, ticket: int, oldest: int) -> list[Any]:
        """Starts a closure; see `Exchange.begin`. Returns the first pull's requests."""
        self._clock = time.perf_counter()
        self._exchange.begin(ticket, oldest)
        return [self._exchange.requests()]

    def pulled(self, *replies: np.ndarray) -> list[Any]:
        """Takes the answers to a pull.

        Returns:
            Status, int32 []; online and target, float32 [P]; the local optimizer's slots, float32
            [S, P], its steps so far, the step size and ε, float32 []; a seed, int32 [2]; what to
            act on, [E, …], and recurrent states, float32 [E, S]; and 1 if there is to be acted at
            all, int32 [].
        """
        answer = self._exchange.pulled(replies)
        if isinstance(answer, Status):
            self._lap("waiting")
            self._idle = answer is Status.FINISHED
            return self._pulled(answer, self._nothing, self._nothing)
        self._longest["pull"] = max(self._longest["pull"], self._lap("pull"))
        self._idle = False
        self.experience.memory.begin()
        self._counters = answer.counters
        self._follow_schedules()
        self._steps_to_make = self._config.vector_steps_per_push
        return self._pulled(Status.READY, answer.online, answer.target)

    def step(self, greedy: np.ndarray, state: np.ndarray) -> list[Any]:
        """Acts; see `Experience.step`. Returns what to act on next, and 1 or 0, as above."""
        self._lap("acting")
        self.experience.step(greedy, state, self._epsilon)
        self._steps_to_make -= 1
        self._lap("environment")
        return [*self.experience.acting, self._goes_on()]

    def sample(self) -> list[Any]:
        """Draws the minibatches of all local updates.

        Returns:
            int32 1, or 0 where the closure is to end without them; the fields of a `Batch`.
        """
        experience = self.experience
        minibatches = experience.nothing if self._idle else experience.memory.sample(self._progress)
        self._lap("sampling")
        return [np.int32(not self._idle), *minibatches]

    def pack(
        self, vector: np.ndarray, slots: np.ndarray, sums: np.ndarray, errors: np.ndarray
    ) -> list[Any]:
        """Decides whether what was learned is pushed, and packs it.

        Args:
            vector: gradient or change, float32 [P].
            slots: the local optimizer's after it, float32 [S, P].
            sums: td_loss, q_values and grad_norm over the updates, float32 [3].
            errors: of what was sampled, for its priorities, float32 [M, B].

        Returns:
            The header of the push, int64, and a message for each server, uint8.
        """
        updates = self._config.parameter_server.local_updates
        self._gather()
        self.experience.memory.remember_errors(errors)
        is_finite = all(map(_is_finite, (vector, slots, sums[:1])))
        is_welcome = is_finite and self._gate.admits(float(sums[0]) / updates)
        if is_welcome:
            self._slots, self._slot_steps = slots, self._slot_steps + updates
        else:
            # The optimizer forgets it too: its slots may be damaged.
            self._sums["withheld_outliers" if is_finite else "withheld_not_finite"] += 1
        self._sums["updates"] += updates
        if is_finite:
            for name, value in zip(("td_loss", "q_values", "grad_norm"), sums, strict=True):
                self._sums[name] += float(value)
        kind = Kind.APPLIED if is_welcome else Kind.WITHHELD
        header, packed = self._exchange.pack(
            vector, kind, updates, self._env_steps, self._episodes, self._learning_rate
        )
        self._env_steps = self._episodes = 0
        self._lap("gradient")
        return [header, *packed]

    def pushed(self, numbers: np.ndarray) -> list[Any]:
        """Hears what became of the push. Returns the next pull's requests."""
        verdict = messages.unpack(Verdict, numbers)
        self._exchange.pushed(verdict)
        self._counters = Counters(*verdict[-4:])
        if verdict.kind != Kind.WITHHELD:
            is_applied = verdict.kind == Kind.APPLIED and not verdict.duplicate
            self._sums["pushes" if is_applied else "refused"] += 1
            self._sums["staleness"] += verdict.staleness
            self._longest["staleness"] = max(self._longest["staleness"], verdict.staleness)
        self._longest["push"] = max(self._longest["push"], self._lap("push"))
        return [self._exchange.requests()]

    def report(self) -> list[Any]:
        """Returns int32 1, a mark that nothing failed, and a `Report`, float64 [fields]."""
        self._gather()
        if self._folder is not None:
            optimizer_state.save(
                self._folder, self._config.learning.optimizer, self._slots, self._slot_steps
            )
        fields: dict[str, float] = {name: self._sums[name] for name in Report._fields}
        fields |= {f"time_{phase}": self._sums[f"time_{phase}"] for phase in PHASES}
        fields |= {f"run_{name}": each for name, each in self._counters._asdict().items()}
        fields |= {
            "worker": self._worker,
            "staleness_max": self._longest["staleness"],
            "pull_max": self._longest["pull"],
            "push_max": self._longest["push"],
            "bytes_pulled": self._exchange.bytes_pulled,
            "bytes_pushed": self._exchange.bytes_pushed,
            "episodes": len(self._returns),
            "return_sum": sum(self._returns),
            "return_min": min(self._returns, default=math.inf),
            "return_max": max(self._returns, default=-math.inf),
            "epsilon": self._epsilon,
            "replay_size": self.experience.memory.size,
        }
        self._sums.clear()
        self._longest = dict.fromkeys(self._longest, 0.0)
        self._exchange.bytes_pulled = self._exchange.bytes_pushed = 0
        self._returns = []
        report = Report(**fields)
        self._done.add(report)
        self._closures += 1
        self.figures = self._figures()
        return [np.int32(1), np.array(report, np.float64)]

    def _figures(self) -> WorkerFigures:
        """Made anew for each report and never changed, so any thread may read them."""
        memory = self.experience.memory
        return WorkerFigures(
            env_steps=int(self._done.total("env_steps")),
            updates=int(self._done.total("updates")),
            closures=self._closures,
            replay_rows=memory.size,
            replay_bytes=memory.nbytes,
            phase_seconds=self._done.phase_seconds(),
        )

    def _pulled(self, status: Status, online: np.ndarray, target: np.ndarray) -> list[Any]:
        return [
            np.int32(status),
            online,
            target,
            self._slots,
            np.float32(self._slot_steps),
            np.float32(self._learning_rate),
            np.float32(self._epsilon),
            self._seeds.integers(2**30, size=2, dtype=np.int32),
            *self.experience.acting,
            self._goes_on(),
        ]

    def _goes_on(self) -> np.int32:
        """Whether there is another step to make before learning."""
        more = self._steps_to_make > 0 or not self.experience.memory.is_warm
        return np.int32(more and not self._idle)

    def _follow_schedules(self) -> None:
        learning, explore = self._config.learning, self._config.exploration
        env_steps = self._counters.env_steps
        self._progress = min(env_steps / self._config.run.total_env_steps, 1.0)
        self._learning_rate = schedules.value(
            learning.learning_rate_schedule,
            learning.learning_rate,
            learning.learning_rate_end,
            learning.learning_rate_decay_steps,
            env_steps,
        )
        self._epsilon = schedules.value(
            explore.epsilon_schedule,
            explore.epsilon_start,
            explore.epsilon_end,
            explore.epsilon_decay_steps,
            env_steps,
        )
        if explore.epsilon_ladder:
            self._epsilon = schedules.ladder(self._epsilon, self._worker, self._num_workers)

    def _gather(self) -> None:
        """Counts what was collected."""
        gathered = self.experience.take_gathered()
        self._env_steps += gathered.env_steps
        self._episodes += len(gathered.returns)
        self._sums["env_steps"] += gathered.env_steps
        self._returns.extend(gathered.returns)

    def _lap(self, phase: str) -> float:
        """Ends a phase of the closure; its length (seconds)."""
        now = time.perf_counter()
        seconds, self._clock = now - self._clock, now
        self._sums[f"time_{phase}"] += seconds
        return seconds


def _is_finite(array: np.ndarray) -> bool:
    """Whether all of it is finite: anything that is not makes the sum so."""
    with np.errstate(all="ignore"):
        return math.isfinite(float(array.sum()))
