"""What a replay server task hosts behind the bridge: its part of one run's experience.

Actors call `add`, learners `draw` and `update`; the coordinator calls the others.
"""

import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.profiling import recording, timeline
from ps_dqn.profiling.recording import Recording
from ps_dqn.replay.batch import zero_batch
from ps_dqn.replay_server import creation, shares
from ps_dqn.replay_server.creation import Creation
from ps_dqn.replay_server.shard import Given, ReplayShard
from ps_dqn.telemetry import memory
from ps_dqn.telemetry.figures import ReplayFigures
from ps_dqn.telemetry.pulse import Pulse
from ps_dqn.wire.bridge import Superseded


class ReplayHost:
    """The bridge's host for one replay server."""

    def __init__(self, worker_dir: pathlib.Path | None):
        """Holds nothing yet.

        Args:
            worker_dir: where this task may keep files, if it may.
        """
        self._worker_dir = worker_dir
        self._session = 0
        self._run: tuple[Any, ...] | None = None  # that the shard is of
        self._shard: ReplayShard | None = None
        self._before = 0  # updates that the run had made, without those that the shard knows of
        self.recording: Recording | None = None
        # All of it from the beginning: a closure of an earlier session may still call.
        self.methods: dict[str, Callable[..., Sequence[Any]]] = {
            "create": self._create,
            "add": self._add,
            "draw": self._draw,
            "update": self._update,
            "ledger": self._ledger,
        }

    @property
    def figures(self) -> ReplayFigures | None:
        """What it holds and has done, if it is in a run; on any thread."""
        shard = self._shard
        return None if shard is None else ReplayFigures(**shard.ledger())

    @property
    def pulse(self) -> Pulse | None:
        """Where it is, if it is in a run; on any thread."""
        shard = self._shard
        if shard is None:
            return None
        ledger = shard.ledger()
        return Pulse(
            self._session,
            adds=ledger["adds"],
            samples=ledger["samples"],
            replay_rows=ledger["rows"],
            replay_goal=shard.size_to_learn,
        )

    def leave(self) -> None:
        """Lets go of the experience; what is in files stays there."""
        self.close()

    def close(self) -> None:
        """Forgets the run."""
        shard, self._shard, self._run, self._session = self._shard, None, None, 0
        if shard is not None:
            shard.close()
        if self.recording is not None:
            self.recording.close()
            self.recording = None

    def _create(self, *inputs: Any) -> list[Any]:
        """Begins a run, or goes on with it in another session; the rows that are there."""
        given = Creation(*inputs)
        run = creation.run_of(given)
        if self._shard is None or run != self._run:
            self.close()
            config = Config.from_json(given.config.decode())
            environment = creation.read(given.environment.decode())
            server, num_servers = map(int, given.place)
            folder = self._folder(config, given.run_id.decode(), server)
            nothing: Any = zero_batch(shares.of(config, server, num_servers), environment)
            timeline.settle(config.profiling.timeline)
            with timeline.span("creating the replay"):
                self._shard = ReplayShard(config, environment, server, num_servers, nothing, folder)
            self._run = run
            profiling = config.profiling
            self.recording = recording.make(profiling.window, profiling.profile_python)
        self._session = int(given.session)
        self._before = int(given.updates) - self._shard.minibatches
        self._tell_recording(self._shard)
        return [np.int64(self._shard.rows)]

    def _folder(self, config: Config, run_id: str, server: int) -> pathlib.Path | None:
        if not config.replay.replay_files:
            return None
        if self._worker_dir is None:
            raise UsageError(
                f"--replay_files: replay server {server} has no place for them; start it with "
                f"--worker_dir"
            )
        return self._worker_dir / f"{run_id}-replay-{server}" / "replay"

    def _of(self, session: np.ndarray) -> ReplayShard:
        """The shard, for a call of the session that it is in; others are too late."""
        if self._shard is None or int(session) != self._session:
            raise Superseded
        return self._shard

    def _add(self, session: np.ndarray, actor: np.ndarray, message: np.ndarray) -> list[Any]:
        with timeline.span("taking what actors have collected"):
            return [self._of(session).add(int(actor), message)]

    def _draw(self, session: np.ndarray) -> Given:
        with timeline.span("sampling for learners"):
            return self._of(session).draw()

    def _update(self, session: np.ndarray, number: np.ndarray, errors: np.ndarray) -> list[Any]:
        shard = self._of(session)
        shard.update(int(number), errors)
        self._tell_recording(shard)
        return [np.int32(1)]

    def _tell_recording(self, shard: ReplayShard) -> None:
        """Tells it of the run's updates, as far as they are known here."""
        if self.recording is not None:
            self.recording.hear(self._before + shard.minibatches)

    def _ledger(self) -> list[Any]:
        ledger = {} if self._shard is None else self._shard.ledger()
        return [json.dumps(ledger | {"memory": memory.used()})]
