"""A worker's side of pull and push: requests, what comes back, and what is kept to itself.

Shapes: P parameters, on `num_ps` servers.
"""

import secrets
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ps_dqn.config import ParameterServer, Resets
from ps_dqn.state import Counters
from ps_dqn.wire import encoding, messages
from ps_dqn.wire.masks import NO_GROWTH, Mask
from ps_dqn.wire.messages import Kind, PullHeader, PullRequest, PushHeader, Status, Verdict
from ps_dqn.worker.pushes.kept_pushes import KeptPushes
from ps_dqn.worker.pushes.packing import Packing

# A worker that has to wait for others asks again after this long, and longer each time (seconds).
FIRST_WAIT, LONGEST_WAIT = 0.0005, 0.008
# While it steps environments it need not know at once, and to ask takes processors from those who
# learn.
LONGEST_WAIT_BESIDE = 0.5
# It gives its closure back after this long without anything else to do, so that the coordinator can
# go on with others.
PATIENCE = 2.0
NOTHING_SEEN = np.zeros(0, np.int64)
NO_RESETS = Resets()
NO_MASK = np.zeros(0, np.float32)


class Parameters(NamedTuple):
    """What a worker has at the start of its local updates."""

    online: np.ndarray  # float32 [P]
    target: np.ndarray  # float32 [P]
    counters: Counters
    workers: int  # that push
    mask: np.ndarray = NO_MASK  # 1 where parameters are kept, float32 [P]; [0] where all are


class ParameterClient:
    """One worker's connection to the parameter servers of a run."""

    _holder = "a parameter server"  # of parameters, for people

    def __init__(
        self,
        options: ParameterServer,
        session: int,
        worker: int,
        sizes: Sequence[int],
        keeps_pushes: bool = False,
        resets: Resets = NO_RESETS,
        prunes: bool = False,
    ):
        """Knows nothing of the parameters yet.

        Args:
            options: the encodings, and the way of aggregating.
            session: the run.
            worker: this worker's index.
            sizes: how many parameters each server holds.
            keeps_pushes: until a snapshot has them.
            resets: when parameters begin anew.
            prunes: whether some of them are zero for good.
        """
        self._options, self._worker = options, worker
        self._sizes = list(sizes)
        self._starts = np.cumsum([0, *sizes])
        self._keeps_pushes = keeps_pushes
        self.kept = KeptPushes()
        self._target = encoding.zeros(self._starts[-1])
        self.packing, self._prunes, self._wants_growth = Packing(options, sizes), prunes, False
        self.go_on(session, has_same_log=False)
        self._resets, self._num_resets = resets, 0
        self._wait_anew()
        # Nothing is to be done before the next pull; the worker's other thread says so.
        self.is_needed = threading.Event()
        self.is_needed.set()
        self.bytes_pulled = self.bytes_pushed = 0
        # Who only acts needs no target, and presses where there is not enough to learn from.
        self.wants_target, self.is_pressing = True, False

    def go_on(self, session: int, has_same_log: bool) -> None:
        """Pushes to servers that were started again.

        Args:
            session: of the run, from now on.
            has_same_log: they go on with the log that pushes were written into before; with
                another one, those that are kept mean nothing any more.
        """
        self._session = session
        self._target_versions = [-1] * len(self._sizes)
        self._forget_masks()
        if not has_same_log:
            self._base_version = 0
            self.kept.clear()

    def begin(self, ticket: int, oldest: int, safe: int = 0) -> None:
        """A closure begins to run here, for the first time or again.

        Args:
            ticket: of its first push.
            oldest: of the first push of the oldest closure that has not ended.
            safe: pushes of lower numbers are in a snapshot.
        """
        self.kept.forget(safe, oldest)
        self._ticket, self._oldest = ticket, oldest
        self._attempt = secrets.randbits(62)
        self._wait_anew()
        self.is_needed.set()  # the closure before may have been cut off

    @property
    def sparsity(self) -> float:
        """Share of all parameters that is zero for good."""
        return 1.0 - sum(mask.count for mask in self.packing.masks) / sum(self._sizes)

    def requests(self) -> np.ndarray:
        """A `PullRequest` for each server, int64 [num_ps, fields]."""
        unwanted = [messages.UNWANTED] * len(self._target_versions)
        versions = self._target_versions if self.wants_target else unwanted
        whose, presses = (self._session, self._worker), int(self.is_pressing)
        known = zip(versions, self.packing.masks, strict=True)
        requests = [PullRequest(*whose, each, presses, mask.number) for each, mask in known]
        return np.array(requests, np.int64)

    def pulled(self, replies: Sequence[np.ndarray]) -> Parameters | Status:
        """Takes the servers' answers.

        Args:
            replies: a message of each server, uint8.

        Returns:
            The parameters; or WAIT: pull again; or FINISHED: the closure is to end.

        Raises:
            RuntimeError: a server failed, or serves another run by now.
        """
        headers = [messages.header(PullHeader, reply) for reply in replies if len(reply)]
        if len(headers) < len(replies) or any(each.status == Status.FOREIGN for each in headers):
            raise RuntimeError(f"{self._holder} failed, or serves another run by now")
        self.bytes_pulled += sum(len(reply) for reply in replies)
        statuses = {each.status for each in headers}
        versions = {each.version for each in headers}
        if Status.FINISHED in statuses:
            return Status.FINISHED
        marks = {(self._resets.number(each.sequential_updates), each.mask) for each in headers}
        is_whole = len(versions if self._options.is_synchronous else marks) == 1
        if Status.WAIT in statuses or not is_whole:
            return self._wait_or_finish()
        self._wait_anew()
        self._begin_anew_after(self._resets.number(headers[0].sequential_updates))
        self._take_masks(replies, headers)
        online = self._vectors(replies, headers)
        first = headers[0]
        self._base_version, self._wants_growth = first.version, bool(first.wants_growth)
        counters = Counters(*(getattr(first, name) for name in Counters._fields))
        return Parameters(online, self._target, counters, first.workers, self.mask)

    def pack(
        self,
        vector: np.ndarray,
        kind: Kind,
        updates: int,
        env_steps: int,
        episodes: int,
        learning_rate: float,
        seen: np.ndarray = NOTHING_SEEN,
        growth: np.ndarray = NO_GROWTH,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The next push.

        Args:
            vector: gradient or change, float32 [P]; finite, or withheld.
            kind: APPLIED; of any other kind only the counters are pushed.
            updates: minibatch gradients in it.
            env_steps: environment steps since the last push.
            episodes: finished episodes since the last push.
            learning_rate: step size of a gradient.
            seen: of the environments since the last push, int64: see `moments`.
            growth: gradients of all parameters, float32 [P], for servers that want to know where
                weights are to grow; [0]: nobody knows.

        Returns:
            The push's header and what was seen, int64, and the part of the vector of each server,
            uint8.
        """
        growth = growth if self._wants_growth else NO_GROWTH
        numbers = PushHeader(
            self._session, self._ticket, self._attempt, self._oldest, kind, self._worker,
            self._base_version, updates, env_steps, episodes, messages.bits(learning_rate),
            self.packing.masks[0].number, int(kind is Kind.APPLIED and len(growth) > 0),
        )  # fmt: skip
        self._ticket += 1
        packed = self.packing.nothing()
        if kind is Kind.APPLIED:
            packed = self.packing.pack(vector, growth)
        header = np.append(messages.pack(numbers), seen)
        if self._keeps_pushes:
            self.kept.add(header, packed)
        self.bytes_pushed += sum(header.nbytes + len(message) for message in packed)
        return header, packed

    def pushed(self, verdict: Verdict) -> None:
        """Takes what became of the push.

        What it left out for want of bytes goes with the next one. Nothing is left over from a push
        that was refused: the worker's next change starts from parameters without it.
        """
        if self.kept.awaits_verdict:
            self.kept.decided(verdict)
        self._take(verdict)

    def pushed_again(self, index: int, verdict: Verdict) -> None:
        """Takes what became of the push of this index when it was pushed again."""
        is_last = index == len(self.kept) - 1
        self.kept.decided(verdict, index)
        if is_last:
            self._take(verdict)

    def _take(self, verdict: Verdict) -> None:
        # A verdict may come a second time; one of another attempt is about its vector.
        is_own = verdict.number >= 0 or not verdict.duplicate
        if verdict.kind == Kind.APPLIED and is_own:
            self.packing.was_applied()

    def _begin_anew_after(self, resets: int) -> None:
        """What earlier pushes left out was about parameters that are not there any more."""
        if resets != self._num_resets:
            self._num_resets = resets
            self.packing.forget()

    def _forget_masks(self) -> None:
        self.packing.forget_masks()
        self.mask = np.ones(self._starts[-1], np.float32) if self._prunes else NO_MASK

    def _take_masks(self, replies: Sequence[np.ndarray], headers: Sequence[PullHeader]) -> None:
        """Takes masks where they are new."""
        if not any(header.has_mask for header in headers):
            return
        masks = list(self.packing.masks)
        for i, (reply, header) in enumerate(zip(replies, headers, strict=True)):
            if header.has_mask:
                bits = reply[messages.HEADER : messages.HEADER + -(-self._sizes[i] // 8)]
                masks[i] = Mask.of_bits(bits, self._sizes[i], header.mask)
        self.packing.take_masks(masks)
        kept = [mask.kept for mask in masks]
        self.mask = np.concatenate(kept, out=encoding.zeros(self._starts[-1]))

    def _wait_anew(self) -> None:
        self._waiting_since: float | None = None
        self._wait = self._wait_beside = FIRST_WAIT

    def _wait_or_finish(self) -> Status:
        if not self.is_needed.is_set():
            self.is_needed.wait(self._wait_beside)
            self._wait_beside = min(2 * self._wait_beside, LONGEST_WAIT_BESIDE)
            return Status.WAIT
        now = time.perf_counter()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since > PATIENCE:
            return Status.FINISHED
        time.sleep(self._wait)
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        return Status.WAIT

    def _vectors(self, replies: Sequence[np.ndarray], headers: Sequence[PullHeader]) -> np.ndarray:
        """Decodes the parameters, and the target where it is new."""
        dtype, masks = self._options.pull_wire_dtype, self.packing.masks
        online, old = [], self._target
        if any(header.has_target for header in headers):
            # Another array: a closure may be reading the one before.
            self._target = encoding.aligned(4 * len(old)).view(np.float32)
        for i, (reply, header) in enumerate(zip(replies, headers, strict=True)):
            part, mask = slice(self._starts[i], self._starts[i + 1]), masks[i]
            size = encoding.size(mask.count, dtype)
            start = messages.HEADER + encoding.padded(len(mask.bits) if header.has_mask else 0)
            values = encoding.decode(reply[start : start + size], mask.count, dtype)
            online.append(mask.spread(values))
            if header.has_target:
                start += encoding.padded(size)
                values = encoding.decode(reply[start : start + size], mask.count, dtype)
                self._target[part] = mask.spread(values)
                self._target_versions[i] = header.target_version
            elif self._target is not old:
                self._target[part] = old[part]
        if len(online) == 1:
            return online[0]  # Where float32 travels, the message itself: no copy.
        return np.concatenate(online, out=encoding.aligned(4 * len(old)).view(np.float32))
