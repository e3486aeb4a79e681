"""What a worker task hosts behind the bridge: its part in a run, and evaluations.

The first `begin` of a run builds everything from the configuration it brings, so a worker needs no
flags of its own, and one that was restarted becomes whole again by itself.
"""

import functools
import math
import pathlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.profiling import recording, timeline
from ps_dqn.profiling.recording import Recording
from ps_dqn.run import compile_cache
from ps_dqn.telemetry.figures import WorkerFigures
from ps_dqn.telemetry.pulse import Pulse
from ps_dqn.wire.messages import Status
from ps_dqn.worker.calls import (
    Acted,
    Begin,
    Begun,
    Played,
    Playing,
    Rejoin,
    Reported,
    Sizes,
    Tickets,
)
from ps_dqn.worker.playing import in_numpy
from ps_dqn.worker.playing.actor import Evaluation
from ps_dqn.worker.pushes.fence import Fence
from ps_dqn.worker.pushes.kept_pushes import KeptPushes
from ps_dqn.worker.pushes.recovery import Recovery
from ps_dqn.worker.roles import sessions
from ps_dqn.worker.roles.session import Session


class WorkerHost:
    """The bridge's host for one worker."""

    def __init__(
        self,
        worker: int,
        worker_dir: pathlib.Path | None,
        actors: Sequence[str] = (),
        end: Callable[[UsageError], object] = lambda error: None,
    ):
        """Holds nothing yet.

        Args:
            worker: index.
            worker_dir: where this worker may keep files, if it may.
            actors: addresses of the cluster's actor tasks.
            end: ends this task, which cannot be used as it was started, where others go on.
        """
        self._worker, self._worker_dir, self._actors = worker, worker_dir, actors
        self._end = end
        self._session = 0
        self._whose: tuple[bytes, bytes, Sizes] | None = None  # run, configuration, sizes
        self._config = Config()
        self._learning: Session | None = None
        self._evaluation: Evaluation | None = None
        self._evaluating_since = math.nan  # `time.perf_counter()`; NaN: it plays none
        self.recording: Recording | None = None
        self._fence = fence = Fence()
        # What one closure builds, which may take long, the one that follows it goes on with.
        self._building = threading.Lock()
        # What closures and the coordinator call; `calls` has what they exchange. All of it from the
        # beginning: an old closure may call where there is no run any more.
        self.methods: dict[str, Callable[..., Any]] = {
            "begin": self._begin,
            "rejoin": self._rejoin,
            "evaluate_begin": self._evaluate_begin,
            "evaluate_step": fence.acting(self._evaluate_step),
            "evaluate_steps": fence.acting(self._evaluate_steps),
            "evaluate_end": fence.ending(self._evaluate_end, Played.nothing()),
            "report": fence.ending(functools.partial(self._learn, "report"), Reported.nothing()),
        }
        for name in sessions.ACTING:
            self.methods[name] = fence.acting(functools.partial(self._learn, name))
        for name in sessions.EXCHANGING:
            self.methods[name] = fence.exchanging(functools.partial(self._learn, name))
        for name in Recovery.ASKED:
            self.methods[name] = functools.partial(self._recover, name)

    @property
    def figures(self) -> WorkerFigures | None:
        """What it has done in the run it is in, if it is in one; on any thread."""
        learning = self._learning
        return None if learning is None else learning.figures

    @property
    def pulse(self) -> Pulse | None:
        """What it is at in the run it is in, if it is in one; on any thread."""
        learning, evaluation = self._learning, self._evaluation
        evaluation_steps = math.nan if evaluation is None else evaluation.steps
        if learning is None:  # it may be new here, and begin with somebody else's evaluation
            if math.isnan(self._evaluating_since):
                return None
            seconds = time.perf_counter() - self._evaluating_since
            evaluating = self._session, "evaluation", seconds
            return Pulse(*evaluating, evaluation_steps=evaluation_steps)
        phase, since = learning.tally.now
        actor, counters = learning.actor, learning.counters
        return Pulse(
            session=self._session,
            phase=phase,
            phase_seconds=time.perf_counter() - since,
            env_steps=actor.env_steps,
            pending=learning.pending + actor.not_taken,
            updates=learning.tally.updates,
            evaluation_steps=evaluation_steps,
            staleness=learning.tally.staleness,
            replay_rows=actor.memory.size,
            replay_goal=actor.memory.size_to_learn,
            run_env_steps=counters.env_steps,
            run_updates=counters.updates,
        )

    def leave(self) -> None:
        """The task is told to end: hands in the push that it is at, and ends the environments."""
        if self._learning is not None:
            self._learning.leave()
            # A closure may still come, which is to end as well as any other; and an evaluation
            # that is played now is lost with the process, not with its environments.
            self._learning.actor.close()

    def close(self) -> None:
        """Ends the environments, and forgets the run."""
        if self._learning is not None:
            self._learning.actor.close()
        if self._evaluation is not None:
            self._evaluation.environments.close()
        if self.recording is not None:
            self.recording.close()
        self._learning = self._evaluation = self._whose = self.recording = None
        self._evaluating_since = math.nan

    def _learn(self, name: str, *inputs: Any) -> Any:
        """A call of the closure that runs, which has begun."""
        assert self._learning is not None
        result = getattr(self._learning, name)(*inputs)
        if name == "report":
            compile_cache.seal()
        is_news = name == "plan" and int(inputs[0]) == Status.READY
        if is_news and self.recording is not None:
            self.recording.hear(self._learning.counters.updates)
        return result

    def _recover(self, name: str, *inputs: Any) -> Any:
        """A question of the coordinator's, which has had this worker rejoin."""
        assert self._learning is not None
        return getattr(self._learning.recovery, name)(*inputs)

    def _begin(self, *arrays: Any) -> Begun:
        """Starts a closure, from the fields of `Begin`."""
        begin, closure = Begin(*arrays), self._fence.begin()
        tickets, sizes = Tickets(*map(int, begin.tickets)), Sizes(*map(int, begin.sizes))
        with self._building:
            self._fence.check(closure)
            self._open(Rejoin(*begin[: len(Rejoin._fields)]))
            if self._learning is None:
                try:
                    self._learning = self._made(begin, sizes)
                except UsageError as error:
                    if tickets.others:  # the run is not this task's to end
                        self._end(error)
                    raise
                self._whose = begin.run_id, begin.config, sizes
            self._fence.check(closure)
            return Begun(np.int64(closure), self._learning.begin(tickets))

    def _made(self, begin: Begin, sizes: Sizes) -> Session:
        """Its part in a run.

        Raises:
            UsageError: it cannot have one as it was started.
        """
        own = self._own_folder(begin.run_id.decode())
        keeps = self._config.replay.replay_files and sessions.keeps(self._config, self._worker)
        replay = self._replay_folder(own) if keeps else None
        failures = own and own / "env_failures"
        whose = (self._session, int(begin.log_id), self._worker)
        kept = replay, failures, int(begin.loss_scale)
        with timeline.span("building environments"):
            return sessions.make(self._config, *whose, sizes, *kept, actors=self._actors)

    def _rejoin(self, *arrays: Any) -> np.ndarray:
        """Goes on in a session, from the fields of `Rejoin`, with all that it has of this run.

        Returns:
            Pushes that the servers may have lost, int64 [pushes, fields]; see `Recovery.go_on`.
        """
        self._fence.end()
        if self._learning is not None:
            self._learning.cut_off()
        return self._go_on(Rejoin(*arrays))

    def _go_on(self, rejoin: Rejoin) -> np.ndarray:
        whose = rejoin.run_id, rejoin.config, Sizes(*map(int, rejoin.sizes))
        if self._learning is None or self._whose != whose:
            return KeptPushes().table()
        self._session = int(rejoin.session)
        return self._learning.recovery.go_on(self._session, int(rejoin.log_id))

    def _own_folder(self, run_id: str) -> pathlib.Path | None:
        """Where this worker may keep files of a run."""
        return self._worker_dir and self._worker_dir / f"{run_id}-worker-{self._worker}"

    def _replay_folder(self, own: pathlib.Path | None) -> pathlib.Path:
        """Where this worker keeps the replay of a run."""
        if own is None:
            raise UsageError(
                f"--replay_files: worker {self._worker} has no place for them; start it with "
                f"--worker_dir"
            )
        return own / "replay"

    def _evaluate_begin(self, *arrays: Any) -> tuple[np.int64, Playing]:
        """Starts an evaluation, of episodes that a seed decides; its closure's number first."""
        *whose, seed, episodes = arrays
        closure, episodes = self._fence.begin(), int(episodes)
        with self._building:
            self._fence.check(closure)
            self._open(Rejoin(*whose))
            if self._learning is not None:
                self._learning.cut_off()
            self._lap("dispatch", then="evaluation")
            self._evaluating_since = time.perf_counter()
            if self._evaluation is None or self._evaluation.environments.num_envs != episodes:
                if self._evaluation is not None:
                    self._evaluation.environments.close()
                with timeline.span("building environments to evaluate in"):
                    self._evaluation = Evaluation(self._config, episodes)
            self._fence.check(closure)
            return np.int64(closure), self._evaluation.begin(int(seed))

    def _evaluate_step(self, *arrays: Any) -> Playing:
        """Acts once in every environment of the evaluation, from the fields of `Acted`."""
        assert self._evaluation is not None  # it has begun
        return self._evaluation.step(Acted(*arrays))

    def _evaluate_steps(self, parameters: np.ndarray, program: bytes) -> Playing:
        """Acts with parameters [P] until all episodes are over: see `in_numpy`."""
        assert self._evaluation is not None
        playing, step = self._evaluation.shown, self._evaluation.step
        return in_numpy.steps(program, parameters, playing, step, lambda each: each.episodes > 0)

    def _evaluate_end(self) -> Played:
        """Ends an evaluation."""
        assert self._evaluation is not None
        played = self._evaluation.end()
        compile_cache.seal()
        self._lap("evaluation", then="dispatch")
        self._evaluating_since = math.nan
        return played

    def _lap(self, phase: str, then: str) -> None:
        """Ends a phase outside of training closures; the next closure's report has it."""
        if self._learning is not None:
            self._learning.tally.lap(phase, then)

    def _open(self, rejoin: Rejoin) -> None:
        """Starts afresh when the coordinator is another run than the last one here.

        It goes on where it was away while the coordinator of its run connected anew.
        """
        session = int(rejoin.session)
        if session != self._session:
            self._go_on(rejoin)
        if session != self._session:
            self.close()
            self._config = Config.from_json(rejoin.config.decode())
            self._session = session
            profiling = self._config.profiling
            timeline.settle(profiling.timeline)
            self.recording = recording.make(profiling.window, profiling.profile_python)
