"""The parameters on the workers, as the coordinator and its closures reach them.

Each worker's closures pull from and push to its own replica. The coordinator says which workers
are a group; it reads from the first of them, and forms another group where one is lost, where one
comes, and where rounds wait for one in vain. `exchange.py` says what a member does.
"""

import contextlib
import json
import secrets
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.all_reduce import order
from ps_dqn.all_reduce.roster import MARK, NUMBERS, TEXT, GoneError, Roster
from ps_dqn.config import Config
from ps_dqn.errors import ClusterLostError
from ps_dqn.parameter_server import standing
from ps_dqn.parameter_server.creation import Creation, Sizes
from ps_dqn.parameter_server.rule import Rule
from ps_dqn.state import Counters, Segment, State
from ps_dqn.store import Frozen, Store, this_worker
from ps_dqn.wire import bridge, messages
from ps_dqn.wire.messages import PullRequest, PushHeader, Verdict

_MESSAGE = tf.TensorSpec([None], tf.uint8)
_NUMBER = tf.TensorSpec([], tf.int64)


class ReplicaStore(Store):
    """The workers of one run, who hold its parameters."""

    keeps_frozen, holder = False, "a worker's replica"

    def __init__(self, config: Config, addresses: Sequence[str], present: Collection[int]):
        """Names a session; the cluster must be connected.

        Args:
            config: the experiment.
            addresses: of all workers, host:port.
            present: indices of those that are there.
        """
        self.session = self.log_id = secrets.randbits(62)
        self.num_ps, self.num_workers = 1, len(addresses)
        self._config = config
        self._roster = Roster(self.session, addresses, present)

    def create(
        self,
        run_id: str,
        initial: np.ndarray,
        state: State | None = None,
        num_moments: int = 0,
        segments: Sequence[Segment] = (),
    ) -> None:
        """Gives every worker that is there a replica, and forms a group of them: see `Store`."""
        roster, num_parameters = self._roster, len(initial)
        roster.size = num_parameters
        if state is not None:
            Rule(self._config).check(state, num_parameters)
            self.log_id = standing.log_id(state.log) if state.log else self.session
        sizes = Sizes(1, self.num_workers, num_parameters, 0, num_moments)
        whose = self.session, self._config, sizes
        self._creation = Creation.of(*whose, initial, segments, num_parameters, run_id)
        self._run_text = self._run(run_id, num_parameters)
        for worker in roster.members:
            roster.create(worker, self._creation)
            if state is not None:
                roster.give(worker, state)
            roster.ask("name", worker, [self._run_text], [MARK])
        self._form()

    def held(self, run_id: str, num_parameters: int) -> State | None:
        """What the furthest worker holds of an earlier session: see `Store`."""
        roster = self._roster
        roster.size = num_parameters
        wanted, found = self._run(run_id, num_parameters).encode(), {}
        for worker in roster.members:
            if roster.clear_error(worker) or roster.ask("run", worker, [], [TEXT])[0] != wanted:
                continue
            found[worker] = roster.standing(worker, "pause")
        return roster.state_of(order.furthest(found)) if found else None

    # In closures.

    def pull(self, requests: tf.Tensor) -> list[tf.Tensor]:
        """Asks this worker's own replica: see `Store`."""
        worker = requests[0, PullRequest._fields.index("worker")]
        return _call("pull", worker, [requests[0]], [_MESSAGE])

    def push(self, header: tf.Tensor, packed: Sequence[tf.Tensor]) -> tf.Tensor:
        """Gives this worker's own replica what it is to add up: see `Store`."""
        worker = header[PushHeader._fields.index("worker")]
        [verdict] = _call("push", worker, [header, *packed], [NUMBERS])
        return tf.ensure_shape(verdict, [None])[: len(Verdict._fields)]

    def freeze(self) -> Frozen:
        """Hands out the average of this worker, if it has a replica: see `Store`."""
        worker, average = this_worker(), tf.TensorSpec([None], tf.float32)
        return Frozen(worker, *_call("freeze", worker, [], [_NUMBER, NUMBERS, average]))

    def leave(self, worker: tf.Tensor) -> tf.Tensor:
        """Nothing is to be done, rounds wait until the worker is back: see `Store`."""
        return tf.zeros([len(Counters._fields)], tf.int64)

    def pull_frozen(self, after: tf.Tensor, brought: tf.Tensor) -> tf.Tensor:
        """What was brought: a worker may have another version, or no replica yet."""
        return brought

    # On the coordinator.

    def counters(self) -> Counters:
        """Where the run is."""
        return self._roster.counters()

    def frozen(self) -> np.ndarray:
        """Never: who has frozen has handed it out."""
        raise RuntimeError("workers keep nothing that was frozen")

    def state(self) -> State:
        """Everything, as the first worker of the group holds it."""
        return self._roster.state()

    def push_now(self, header: np.ndarray, packed: Sequence[np.ndarray]) -> Verdict:
        """Never: where the workers hold the parameters, none keeps pushes for others."""
        raise RuntimeError("a worker has kept a push, and there is nobody to push it to")

    def catch_up(self) -> None:
        """Nothing is to be done: a worker applies a round as a whole, or not at all."""

    def go_on(self, worker: int = messages.NO_WORKER) -> list[int]:
        """Forms the group without a worker, or without all whose push the round lacks."""
        roster = self._roster
        if worker == messages.NO_WORKER:
            standings = roster.standings()
            waiting = [each for each in standings if standings[each].get("waits")]
            roster.keep(waiting or standings)
        else:
            roster.drop(worker)
        if not roster.is_formed:
            self._form()
        return roster.absent

    def is_newest(self, frozen: Frozen) -> bool:
        """Whether the worker was in the group that there is: see `Store`."""
        return self._roster.is_formed and int(frozen.group) == self._roster.generation

    def take_in(self, worker: int) -> None:
        """Forms the group anew where a worker is not in it, or it is broken."""
        try:
            if self._roster.is_well(worker):
                return
        except GoneError:
            return  # there will be news of that
        self._roster.keep({*self._roster.members, worker})
        self._form()

    def halt(self) -> None:
        """Ends the run: closures end at their next pull."""
        for worker in list(self._roster.members):
            try:
                self._roster.ask("halt", worker, [], [MARK])
            except GoneError:
                self._roster.drop(worker)

    def ledgers(self) -> list[dict[str, Any]]:
        """None: there are no parameter servers."""
        return []

    def errors(self) -> str:
        """The tracebacks of replicas that failed, or an empty text."""
        found = []
        for worker in self._roster.known:
            with contextlib.suppress(ClusterLostError):  # there will be news of that
                if text := self._roster.clear_error(worker):
                    found.append(f"the replica of worker {worker}:\n{text}")
        return "\n".join(found)

    def _form(self) -> None:
        self._roster.form(self._creation, self._run_text)

    def _run(self, run_id: str, num_parameters: int) -> str:
        """What workers hold that are in a session of this run."""
        sizes = [self.num_workers, num_parameters]
        return json.dumps({"run_id": run_id, "sizes": sizes, "config": self._config.to_json()})


def _call(
    method: str, worker: tf.Tensor, inputs: Sequence[Any], outputs: list[tf.TensorSpec]
) -> list[tf.Tensor]:
    """A call of the replica of the worker on which this runs."""
    number = -1 - tf.cast(worker, tf.int32)  # as `bridge.server` has it
    results: list[tf.Tensor] = bridge.call(method, number, inputs, outputs, in_order=False)
    return results
