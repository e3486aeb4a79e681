"""The replay servers of a run, as the coordinator and its closures reach them.

TensorFlow knows them as the last of its parameter servers (`ClusterSpec.place`).
Shapes: R servers, M minibatches of B items each.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.replay.batch import Transitions, zero_batch
from ps_dqn.replay_server import creation, shares
from ps_dqn.replay_server.creation import Creation
from ps_dqn.replay_server.shard import Given
from ps_dqn.wire import asking, bridge

_NUMBER = tf.TensorSpec([], tf.int64)
_ANSWER = tf.TensorSpec([2], tf.int64)
_MARK = tf.TensorSpec([], tf.int32)
_TEXT = tf.TensorSpec([], tf.string)


class ReplayStore:
    """The replay servers of one run.

    Where each worker has its own replay there are none: then nobody is asked, and nothing is there.
    """

    def __init__(self, config: Config, environment: EnvironmentSpec, num_ps: int, num_servers: int):
        """Knows where they are.

        Args:
            config: the experiment, for each actor its share.
            environment: what is acted in.
            num_ps: parameter servers, which come before them.
            num_servers: R.
        """
        self._config, self._environment = config, environment
        self._numbers = [bridge.server(num_ps + i) for i in range(num_servers)]
        self._devices = [
            f"/job:ps/replica:0/task:{num_ps + i}/device:CPU:0" for i in range(num_servers)
        ]
        self._session = np.int64(0)

    @property
    def num_servers(self) -> int:
        """R."""
        return len(self._devices)

    def create(self, run_id: str, session: int, updates: int) -> int:
        """Has every server begin a run, or go on with it; the rows that are there already.

        Args:
            run_id: the same for every session of a run.
            session: of the run.
            updates: that the run has made.

        Raises:
            ClusterLostError: a server does not answer.
            UsageError: a replay cannot be as wanted there.
        """
        self._session, rows = np.int64(session), 0
        config, environment = self._config.to_json(), creation.described(self._environment)
        for i in range(self.num_servers):
            asking.clear_error(self._devices[i], self._numbers[i])  # of an earlier run
            place = np.array([i, self.num_servers], np.int64)
            where = place, np.int64(updates)
            given = Creation(self._session, run_id, config, environment, *where)
            rows += int(self._ask("create", i, given, [_NUMBER])[0])
        return rows

    def describe(self, rows: int) -> list[str]:
        """What people should know where a run goes on; nothing where there are no servers.

        Args:
            rows: that the servers had.
        """
        return [f"replay servers have {rows:,} rows"] if self.num_servers else []

    def ledgers(self) -> list[dict[str, Any]]:
        """`ReplayShard.ledger` of each server."""
        found = [self._ask("ledger", i, [], [_TEXT])[0] for i in range(self.num_servers)]
        return [json.loads(each) for each in found]

    def errors(self) -> str:
        """The tracebacks of servers that failed, or an empty text."""
        found = []
        for i, (device, number) in enumerate(zip(self._devices, self._numbers, strict=True)):
            if text := asking.clear_error(device, number):
                found.append(f"replay server {i}:\n{text}")
        return "\n".join(found)

    # In closures, which are traced by the coordinator and run on workers.

    def add(self, actor: tf.Tensor, parcels: Sequence[tf.Tensor]) -> tf.Tensor:
        """Hands over what an actor has collected.

        Args:
            actor: index among the actors, int64 [].
            parcels: for each server, uint8.

        Returns:
            What each answers, int64 [R, 2]; see `ReplayShard.add`.
        """
        calls = [
            self._call("add", i, [self._session, actor, parcel], [_ANSWER])[0]
            for i, parcel in enumerate(parcels)
        ]
        return tf.stack(calls)

    def draw(self, after: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, Transitions]:
        """Draws the minibatches of a push, of which each server gives as much.

        Args:
            after: not before this is known.

        Returns:
            Rows that can be drawn from each server, int64 [R]; numbers of their draws, int64 [R],
            0 of those that have not enough; and minibatches whose weights are probabilities.
        """
        given = []
        with tf.control_dependencies([after]):
            for i in range(self.num_servers):
                part: Any = zero_batch(
                    shares.of(self._config, i, self.num_servers), self._environment
                )
                specs = Given(_NUMBER, _NUMBER, part)
                given.append(self._call("draw", i, [self._session], specs))
        batches = [each.batch for each in given]
        batch = Transitions(*(tf.concat(parts, axis=1) for parts in zip(*batches, strict=True)))
        return tf.stack([each.rows for each in given]), tf.stack([e.number for e in given]), batch

    def update(self, numbers: tf.Tensor, errors: tf.Tensor) -> tf.Operation:
        """Tells what was learned of draws.

        Args:
            numbers: of the draws, int64 [R].
            errors: |TD error|, float32 [M, B].

        Returns:
            What is done once all have heard.
        """
        parts = tf.split(errors, self.num_servers, axis=1)
        marks = [
            self._call("update", i, [self._session, numbers[i], part], [_MARK])[0]
            for i, part in enumerate(parts)
        ]
        return tf.group(marks)

    def _call(self, method: str, server: int, inputs: Sequence[Any], outputs: Any) -> Any:
        """A call of one server, at the same time as those of the others."""
        with tf.device(self._devices[server]):
            number = self._numbers[server]
            return bridge.call(method, number, inputs, outputs, in_order=False)

    def _ask(
        self, method: str, server: int, inputs: Sequence[Any], outputs: Sequence[tf.TensorSpec]
    ) -> list[Any]:
        return asking.ask(self._devices[server], self._numbers[server], method, inputs, outputs)
