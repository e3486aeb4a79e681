"""One replay server's part of a run's experience. No TensorFlow in it.

Actors add, learners draw and say what errors they have found; each in batches, one call for many
rows. Shapes: M minibatches of B items each, E environments of a parcel.
"""

import collections
import dataclasses
import itertools
import pathlib
import threading
import time
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.replay import parcels
from ps_dqn.replay.parcels import Parcel
from ps_dqn.replay.prioritized import Announced
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import Rows
from ps_dqn.replay.samplers import Drawn, NothingToDrawError
from ps_dqn.replay_server import shares

# Draws whose errors may still come: a learner has one, and one that was cut off may have left one.
MOST_DRAWS = 64


class Given(NamedTuple):
    """What a draw gives; weights are probabilities of being drawn from this server."""

    rows: Any  # that can be drawn, int64 []
    number: Any  # of the draw, for its errors, int64 []; 0 where there is not enough
    batch: Any  # `Transitions`


class ReplayShard:
    """Rows of some environments of every actor; its methods may be called by several threads."""

    def __init__(
        self,
        config: Config,
        environment: EnvironmentSpec,
        server: int,
        num_servers: int,
        nothing: Any,
        folder: pathlib.Path | None,
    ):
        """Allocates all memory; with a folder, goes on with what is in it.

        Args:
            config: the experiment, for each actor its share.
            environment: what is acted in.
            server: index.
            num_servers: replay servers.
            nothing: a batch of zeros, as a draw gives.
            folder: where replay is kept; None keeps it in memory.

        Raises:
            UsageError: it does not fit into the memory, or cannot be as wanted.
        """
        own = shares.of(config, server, num_servers)
        plan = shares.planned(config, environment, server, num_servers)
        if folder is None:
            plan.check_memory(1)
        self._layout = dataclasses.replace(plan.layout, folder=folder)
        options = own.replay
        self._sampler = Announced(
            options.priority_alpha, options.priority_beta, options.priority_epsilon
        )
        rng = np.random.default_rng([config.run.seed, server, time.time_ns()])
        self._replay = Replay(self._layout, self._sampler, rng, options.min_replay_size)
        self._envs = shares.envs_of(config, server, num_servers)
        self._sizes = config.parameter_server.local_updates, own.learning.batch_size
        self._nothing = nothing
        self._lock = threading.Lock()
        self._last: dict[int, tuple[int, int]] = {}  # of each actor: sender and number
        self._draws: collections.OrderedDict[int, Drawn] = collections.OrderedDict()
        self._numbers = itertools.count(1)
        self._ledger: collections.Counter[str] = collections.Counter()
        self._began, self._seconds = time.monotonic(), 0.0

    @property
    def rows(self) -> int:
        """That can be drawn."""
        return self._replay.size

    @property
    def size_to_learn(self) -> int:
        """Rows without which nothing is drawn."""
        return self._replay.size_to_learn

    def add(self, actor: int, message: np.ndarray) -> np.ndarray:
        """Takes a parcel.

        Args:
            actor: index among the actors.
            message: uint8; empty: nothing.

        Returns:
            Rows that can be drawn, and whether they are enough: int64 [2].
        """
        started = time.perf_counter()
        with self._lock:
            if message.size:
                parcel = parcels.unpack(message, self._layout, self._envs)
                self._write(actor, parcel)
                self._ledger["adds"] += int(parcel.is_transition.sum())
            answer = np.array([self._replay.size, self._replay.is_warm], np.int64)
            self._worked(started, received=message.nbytes, sent=answer.nbytes)
            return answer

    def draw(self) -> Given:
        """Draws the minibatches of a push."""
        started = time.perf_counter()
        with self._lock:
            rows = np.int64(self._replay.size)
            number, batch = 0, self._nothing  # where there is not enough
            if self._replay.is_warm:
                try:
                    batch = self._replay.sample(*self._sizes)
                    number = next(self._numbers)
                    self._draws[number] = self._replay.sampled
                    if len(self._draws) > MOST_DRAWS:
                        self._draws.popitem(last=False)
                    self._ledger["samples"] += batch.actions.size
                except NothingToDrawError:
                    pass
            self._worked(started, sent=sum(array.nbytes for array in batch))
            return Given(rows, np.int64(number), batch)

    @property
    def minibatches(self) -> int:
        """Of draws whose errors have come: updates that learners have made."""
        return self._ledger["minibatches"]

    def update(self, number: int, errors: np.ndarray) -> None:
        """Takes the errors of a draw, |TD error|, float32 [M, B]; none of one it does not know."""
        started = time.perf_counter()
        with self._lock:
            drawn = self._draws.pop(number, None)
            if drawn is not None:
                self._sampler.update(drawn, errors)
                self._ledger["updates"] += errors.size
                self._ledger["minibatches"] += len(errors)
            self._worked(started, received=errors.nbytes)

    def ledger(self) -> dict[str, Any]:
        """What it holds and has done, for JSON."""
        with self._lock:
            names = ("adds", "samples", "updates", "bytes_in", "bytes_out")
            counts = {name: self._ledger[name] for name in names}
            return {
                **counts,
                "rows": self._replay.size,
                "bytes_held": self._replay.nbytes,
                "seconds": self._seconds,
                "alive_seconds": time.monotonic() - self._began,
            }

    def close(self) -> None:
        """Lets go of files."""
        with self._lock:
            self._replay.close()

    def _write(self, actor: int, parcel: Parcel) -> None:
        envs = actor * self._envs + np.arange(self._envs)
        before = self._last.get(actor)
        if before == (parcel.sender, parcel.number):
            return  # it has come already, and the actor has not heard of it
        if before != (parcel.sender, parcel.number - 1):
            self._replay.break_off(envs)  # another process, or something was lost
        # Whatever is raised from here on ends the run (see `bridge`), so nobody sends again what is
        # half written. A full disk raises nothing: files have all their room from the beginning.
        self._last[actor] = parcel.sender, parcel.number
        stacked = self._layout.frame_stack > 1
        older = dict(zip(parcel.older_of.tolist(), parcel.older, strict=True))
        width, last = self._envs, collections.defaultdict(list)
        for i, place in enumerate(parcel.last_of.tolist()):
            last[place // width].append(i)
        for s in range(len(parcel.actions)):
            shown = parcel.frames[s]
            if stacked:
                shown = self._replay.stacks(envs, shown)
                for j in range(width):
                    if s * width + j in older:
                        shown[j, :-1] = older[s * width + j]
            self._replay.write(
                Rows(
                    envs,
                    shown,
                    parcel.actions[s],
                    parcel.rewards[s],
                    parcel.ends[s],
                    parcel.is_transition[s],
                    masks=parcel.masks[s],
                )
            )
            self._sampler.announce(envs, self._replay.newest(envs), parcel.errors[s])
            if s in last:
                of = envs[parcel.last_of[last[s]] % width]
                shown = parcel.last_frames[last[s]]
                if stacked:
                    shown = self._replay.stacks(of, shown)
                masks = parcel.last_masks[last[s]]
                self._replay.write(Rows.of_observations(of, shown, masks))

    def _worked(self, started: float, received: int = 0, sent: int = 0) -> None:
        self._ledger["bytes_in"] += received
        self._ledger["bytes_out"] += sent
        self._seconds += time.perf_counter() - started
