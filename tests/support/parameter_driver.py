"""Workers of the in-process cluster that pull and push by hand, and their parameter servers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.state import Segment
from ps_dqn.wire import bridge, messages
from ps_dqn.wire.messages import Kind, PullRequest, PushHeader, Verdict
from ps_dqn.worker.pushes.parameter_client import ParameterClient, Parameters

SIZE = 10  # not a multiple of 3
EPSILON = 1e-4
VECTORS = ("online", "target", "average", "slots")


def initial(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(7).normal(size=size).astype(np.float32)


def vectors(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(8).normal(size=(count, size)).astype(np.float32)


def make_config(**options) -> Config:
    defaults = {
        "local_updates": 1,
        "num_envs_per_worker": 1,
        # Copies are far away and there is no average where a test does not ask for them.
        "target_update_period": 128 if options.get("tau") else 10**6,
        "average_decay": 0.0,
    }
    if options.get("optimizer") != "sgd":
        defaults["optimizer_epsilon"] = EPSILON
    return Config.from_values({**defaults, **options})


class Driver:
    """A store, and workers that pull and push through closures on the shared cluster.

    It takes the parameter servers from the driver before it.
    """

    def __init__(
        self,
        coordinator,
        config: Config,
        num_ps: int,
        start: np.ndarray | None = None,
        num_workers: int = 1,
        segments: Sequence[Segment] = (),
    ):
        start = initial() if start is None else start
        self._coordinator = coordinator
        self.store = ParameterStore(config, num_ps, num_workers)
        self.store.create("run", start, segments=segments)
        self._workers = [
            ParameterClient(config.parameter_server, self.store.session, i, self.store.sizes)
            for i in range(num_workers)
        ]
        self._updates = config.parameter_server.local_updates
        self._ticket = 0
        requests = tf.TensorSpec([num_ps, len(PullRequest._fields)], tf.int64)
        header = tf.TensorSpec([len(PushHeader._fields)], tf.int64)
        self._message_specs = [header, *[tf.TensorSpec([None], tf.uint8)] * num_ps]
        self._pull = self.trace(self.store.pull, requests)
        self.push_graph = self.trace(
            lambda header, *packed: self.store.push(header, packed), *self._message_specs
        )
        self.freeze = self.trace(lambda: self.store.freeze().counters)
        self.pull_frozen = self.trace(
            lambda: self.store.pull_frozen(after=tf.constant(0), brought=tf.zeros([0]))
        )

    def pull(self, worker: int = 0) -> Parameters:
        exchange = self._workers[worker]
        exchange.begin(ticket=0, oldest=0)
        pulled = exchange.pulled(self.run(self._pull, exchange.requests()))
        assert isinstance(pulled, Parameters)
        return pulled

    def pack(self, vector, rate=0.0, env_steps=0, episodes=0, worker=0, ticket=None):
        """A header and messages with a ticket, a new one if none is given."""
        if ticket is None:
            self._ticket = ticket = self._ticket + 1
        exchange = self._workers[worker]
        exchange.begin(ticket, oldest=0)
        header, packed = exchange.pack(
            vector, Kind.APPLIED, self._updates, env_steps, episodes, rate
        )
        return header, *packed

    def push(self, vector, rate=0.0, env_steps=0, episodes=0, worker=0, ticket=None) -> Verdict:
        packed = self.pack(vector, rate, env_steps, episodes, worker, ticket)
        verdict = messages.unpack(Verdict, self.run(self.push_graph, *packed))
        self._workers[worker].pushed(verdict)
        return verdict

    def run(self, function, *args) -> Any:
        return self._coordinator.schedule(function, args=args).fetch()

    def schedule_meeting_push(self, packed):
        """Two workers push at the same moment: each waits for the other first."""
        if not hasattr(self, "_meeting"):
            self._meeting = self.trace(self._meet_and_push, *self._message_specs)
        return self._coordinator.schedule(self._meeting, args=packed)

    def _meet_and_push(self, header, *packed):
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        [met] = bridge.call("meet", worker, [], [tf.TensorSpec([], tf.int32)])
        with tf.control_dependencies([met]):
            header = tf.identity(header)
            packed = [tf.identity(each) for each in packed]
        return self.store.push(header, packed)

    def ask(
        self, server: int, method: str, inputs: Sequence[Any], dtype=tf.int64, shape=(None,)
    ) -> np.ndarray:
        """One call of one server, as a worker makes it."""
        with tf.device(f"/job:ps/replica:0/task:{server}/device:CPU:0"):
            output = tf.TensorSpec(shape, dtype)
            [result] = bridge.call(method, bridge.server(server), inputs, [output])
        return result.numpy()

    def stage(self, packed) -> int:
        """The first call of a push on each server; the first entry that some server lacks."""
        header, *parts = packed
        return min(
            int(self.ask(i, "stage", [header, message], shape=()))
            for i, message in enumerate(parts)
        )

    def decide(self, packed, known: int) -> Verdict:
        """The second call, of the first server."""
        return messages.unpack(Verdict, self.ask(0, "decide", [np.append(packed[0], known)]))

    def online_parts(self) -> list[np.ndarray]:
        """What each server has now, without a log in between."""
        exchange = self._workers[0]
        exchange.begin(ticket=0, oldest=0)
        return np.split(self.pull().online, np.cumsum(self.store.sizes)[:-1])

    @staticmethod
    def trace(function, *signature):
        return tf.function(function, autograph=False).get_concrete_function(*signature)


def assert_agreement(store: ParameterStore) -> dict[str, int]:
    """All servers have gone through the same log; what they say of it."""
    first, *others = store.tallies()
    for other in others:
        assert other == first
    assert first["staged"] == 0
    return first
