"""What a parameter server task hosts behind the bridge: its shard of one run.

Workers call `pull`, `push`, `stage`, `decide` and `follow`; the coordinator calls the others.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.parameter_server import vectors
from ps_dqn.parameter_server.creation import Creation, Sizes
from ps_dqn.parameter_server.normalizing import Normalizing
from ps_dqn.parameter_server.pruning import Pruning
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.parameter_server.shard import Shard
from ps_dqn.profiling import recording, timeline
from ps_dqn.profiling.recording import Recording
from ps_dqn.telemetry import memory
from ps_dqn.telemetry.figures import ServerFigures
from ps_dqn.telemetry.pulse import Pulse
from ps_dqn.wire.messages import Kind
from ps_dqn.wire.parcels import Parcels


class ParameterHost:
    """The bridge's host for one parameter server."""

    def __init__(self) -> None:
        self._shard: Shard | None = None
        self._parcels: Parcels | None = None  # of its state
        self._run = ""  # JSON: which run the shard is of; no text while it is being made
        self._size = 0  # parameters
        self._session = 0
        self.recording: Recording | None = None

    @property
    def methods(self) -> dict[str, Callable[..., Sequence[Any]]]:
        """What workers and the coordinator call; before a run only `create`, `name` and `run`."""
        methods: dict[str, Callable[..., Sequence[Any]]] = {
            "create": self._create,
            "run": lambda: [self._run],
            "name": self._name,
        }
        shard, parcels = self._shard, self._parcels
        if shard is not None and parcels is not None:
            methods |= {
                "pull": _timed("answering a pull", lambda request: [shard.pull(request)]),
                "push": _timed("applying a push", lambda *push: [self._changed(shard.push(*push))]),
                "stage": lambda *push: [np.int64(shard.stage(*push))],
                "decide": _timed(
                    "applying a push", lambda request: [self._changed(shard.decide(request))]
                ),
                "follow": _timed(
                    "applying a push",
                    lambda verdict: [np.int64(self._changed(shard.follow(verdict)))],
                ),
                "mark": lambda kind, known, worker: [
                    shard.mark(Kind(int(kind)), int(known), int(worker))
                ],
                "entries": lambda known: [shard.entries(int(known))],
                "next_index": lambda: [np.int64(shard.next_index())],
                "frozen": lambda: [shard.frozen()],
                "checkpoint": parcels.checkpoint,
                "restore": parcels.restore,
                "halt": lambda: [np.int32(shard.halt())],
                "tally": lambda: [json.dumps(shard.tally())],
                "ledger": lambda: [json.dumps(shard.ledger() | {"memory": memory.used()})],
            }
        return methods

    @property
    def figures(self) -> ServerFigures | None:
        """What it holds and has done, if it is in a run; on any thread."""
        shard = self._shard
        if shard is None:
            return None
        ledger = shard.ledger()
        return ServerFigures(
            version=shard.tally()["version"],
            parameters=self._size,
            pulls=ledger["pulls"],
            pushes=ledger["pushes"],
            sent_bytes=ledger["bytes_out"],
            received_bytes=ledger["bytes_in"],
            busy_seconds=ledger["seconds"],
        )

    @property
    def pulse(self) -> Pulse | None:
        """Where it is, if it is in a run; on any thread."""
        shown = self.figures
        if shown is None:
            return None
        return Pulse(self._session, version=shown.version, pushes=shown.pushes)

    def leave(self) -> None:
        """Lets go of the parameters."""
        self._shard = self._parcels = None
        self._forget()

    def _create(self, *inputs: Any) -> list[Any]:
        self._run = ""
        self._forget()
        given = Creation(*inputs)
        sizes, config = Sizes(*map(int, given.sizes)), Config.from_json(given.config.decode())
        timeline.settle(config.profiling.timeline, given.run_id.decode())
        with timeline.span("creating the parameters"):
            self._make(given, sizes, config)
        profiling = config.profiling
        self.recording = recording.make(profiling.window, profiling.profile_python)
        return [np.int32(1)]

    def _make(self, given: Creation, sizes: Sizes, config: Config) -> None:
        self._size, self._session = len(given.initial), int(given.session)
        num_returns = int(config.value.normalize_returns == "on")
        pruning = Pruning(config, sizes.start, self._size, given.layers)
        initial = pruning.mask.only(given.initial)
        shard = Shard(
            config,
            self._session,
            sizes.num_ps,
            sizes.num_workers,
            vectors.make(config, initial, sizes.num_parameters),
            Normalizing(sizes.num_moments, num_returns, sizes.start),
            Resets(config, sizes.start, self._size, given.segments, given.drawn),
            pruning=pruning,
        )
        self._parcels, self._shard = Parcels(shard.checkpoint, shard.restore), shard

    def _name(self, run: bytes) -> list[Any]:
        """Says which run the shard is of, now that it holds all that the run begins with."""
        self._run = run.decode()
        self._changed(None)
        return [np.int32(1)]

    def _changed(self, result: Any) -> Any:
        """Tells the recording, where it listens, of the run's updates; gives the result back."""
        if self.recording is not None and self.recording.listens and self._shard is not None:
            self.recording.hear(self._shard.tally()["updates"])
        return result

    def _forget(self) -> None:
        if self.recording is not None:
            self.recording.close()
            self.recording = None


def _timed(name: str, method: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The same method, whose calls are spans of the timeline."""

    def call(*inputs: Any) -> list[Any]:
        with timeline.span(name):
            return method(*inputs)

    return call
