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
from ps_dqn.wire.messages import Kind, PullHeader, PullRequest, PushHeader, Status, Verdict
from ps_dqn.worker.kept_pushes import KeptPushes

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


class Parameters(NamedTuple):
    """What a worker has at the start of its local updates."""

    online: np.ndarray  # float32 [P]
    target: np.ndarray  # float32 [P]
    counters: Counters
    workers: int  # that push


class ParameterClient:
    """One worker's connection to the parameter servers of a run."""

    def __init__(
        self,
        options: ParameterServer,
        session: int,
        worker: int,
        sizes: Sequence[int],
        keeps_pushes: bool = False,
        resets: Resets = NO_RESETS,
    ):
        """Knows nothing of the parameters yet.

        Args:
            options: the encodings, and the way of aggregating.
            session: the run.
            worker: this worker's index.
            sizes: how many parameters each server holds.
            keeps_pushes: until a snapshot has them.
            resets: when parameters begin anew.
        """
        self._options, self._worker = options, worker
        self._sizes = list(sizes)
        self._starts = np.cumsum([0, *sizes])
        self._keeps_pushes = keeps_pushes
        self.kept = KeptPushes()
        self._target = np.zeros(self._starts[-1], np.float32)
        self.go_on(session, has_same_log=False)
        self._is_exact = options.pushes_are_exact
        self._resets, self._num_resets = resets, 0
        self._leave_nothing_over()
        self._wait_anew()
        # The worker has nothing to do before the next pull; its other thread says so.
        self.is_needed = threading.Event()
        self.is_needed.set()
        self.bytes_pulled = self.bytes_pushed = 0

    def go_on(self, session: int, has_same_log: bool) -> None:
        """Pushes to servers that were started again.

        Args:
            session: of the run, from now on.
            has_same_log: they go on with the log that pushes were written into before; with
                another one, those that are kept mean nothing any more.
        """
        self._session = session
        self._target_versions = [-1] * len(self._sizes)
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

    def requests(self) -> np.ndarray:
        """A `PullRequest` for each server, int64 [num_ps, fields]."""
        return np.array(
            [
                PullRequest(self._session, self._worker, version)
                for version in self._target_versions
            ],
            np.int64,
        )

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
            raise RuntimeError("a parameter server failed, or serves another run by now")
        self.bytes_pulled += sum(len(reply) for reply in replies)
        statuses = {each.status for each in headers}
        versions = {each.version for each in headers}
        if Status.FINISHED in statuses:
            return Status.FINISHED
        resets = {self._resets.number(each.sequential_updates) for each in headers}
        is_whole = len(versions if self._options.is_synchronous else resets) == 1
        if Status.WAIT in statuses or not is_whole:
            return self._wait_or_finish()
        self._wait_anew()
        self._begin_anew_after(*resets)
        online = self._vectors(replies, headers)
        first = headers[0]
        self._base_version = first.version
        counters = Counters(*(getattr(first, name) for name in Counters._fields))
        return Parameters(online, self._target, counters, first.workers)

    def pack(
        self,
        vector: np.ndarray,
        kind: Kind,
        updates: int,
        env_steps: int,
        episodes: int,
        learning_rate: float,
        seen: np.ndarray = NOTHING_SEEN,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The next push.

        Args:
            vector: gradient or change, float32 [P]; finite, or withheld.
            kind: APPLIED, or WITHHELD: only the counters are pushed.
            updates: minibatch gradients in it.
            env_steps: environment steps since the last push.
            episodes: finished episodes since the last push.
            learning_rate: step size of a gradient.
            seen: of the environments since the last push, int64: see `moments`.

        Returns:
            The push's header and what was seen, int64, and the part of the vector of each server,
            uint8.
        """
        numbers = PushHeader(
            self._session, self._ticket, self._attempt, self._oldest, kind, self._worker,
            self._base_version, updates, env_steps, episodes, messages.bits(learning_rate),
        )  # fmt: skip
        self._ticket += 1
        if kind is Kind.WITHHELD:
            packed = [np.empty(0, np.uint8) for _ in self._sizes]
        elif self._is_exact:
            packed = [messages.pack_vector(part, "float32") for part in self._parts(vector)]
        else:
            packed = self._pack_lossy(vector + self._residual)
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
            self._residual = self._left_over

    def _begin_anew_after(self, resets: int) -> None:
        """What earlier pushes left out was about parameters that are not there any more."""
        if resets != self._num_resets:
            self._num_resets = resets
            self._leave_nothing_over()

    def _leave_nothing_over(self) -> None:
        size = 0 if self._is_exact else self._starts[-1]
        self._residual = self._left_over = np.zeros(size, np.float32)

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
        dtype = self._options.pull_wire_dtype
        online = encoding.aligned(4 * int(self._starts[-1])).view(np.float32)
        old = self._target
        if any(header.has_target for header in headers):
            # Another array: a closure may be reading the one before.
            self._target = encoding.aligned(4 * len(old)).view(np.float32)
        for i, (reply, header) in enumerate(zip(replies, headers, strict=True)):
            part, count = slice(self._starts[i], self._starts[i + 1]), self._sizes[i]
            size = encoding.size(count, dtype)
            start = messages.HEADER
            online[part] = encoding.decode(reply[start : start + size], count, dtype)
            if header.has_target:
                start += encoding.padded(size)
                self._target[part] = encoding.decode(reply[start : start + size], count, dtype)
                self._target_versions[i] = header.target_version
            elif self._target is not old:
                self._target[part] = old[part]
        return online

    def _parts(self, vector: np.ndarray) -> list[np.ndarray]:
        return np.split(vector, self._starts[1:-1])

    def _pack_lossy(self, vector: np.ndarray) -> list[np.ndarray]:
        """Packs with fewer bytes, and remembers what they leave out (error feedback)."""
        dtype, top_k = self._options.push_wire_dtype, self._options.push_top_k
        packed, sent = [], np.zeros_like(vector)
        if top_k == 1.0:
            for part, decoded in zip(self._parts(vector), self._parts(sent), strict=True):
                packed.append(messages.pack_vector(part, dtype))
                decoded[:] = messages.unpack_vector(packed[-1], len(part), dtype)
        else:
            indices = largest(vector, max(1, round(top_k * len(vector))))
            for i, start in enumerate(self._starts[:-1]):
                low, high = np.searchsorted(indices, [start, self._starts[i + 1]])
                chosen = indices[low:high]
                message = messages.pack_some(vector[chosen], chosen - start, dtype)
                decoded = messages.unpack_some(message, self._sizes[i], dtype)
                sent[chosen] = decoded[chosen - start]
                packed.append(message)
        self._left_over = vector - sent
        return packed


def largest(vector: np.ndarray, count: int) -> np.ndarray:
    """Indices of the numbers of largest size, in order; int64 [count].

    Lin et al. 2018, arXiv:1712.01887, of which this is the choice and the error feedback.
    """
    if count >= len(vector):
        return np.arange(len(vector))
    return np.sort(np.argpartition(np.abs(vector), len(vector) - count)[-count:])
