"""The functions that run on workers: train, freeze, evaluate.

A training closure is: pull -> collect -> sample -> local updates -> push, as often as
`pushes_per_closure` says, and a report.

Shapes: E environments, M minibatches (= local updates), B transitions each, P parameters,
S optimizer slots.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ps_dqn import seeds
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.learner import local_optimizer_slots, make_learner
from ps_dqn.networks.network import QNetwork
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.replay.batch import Batch, zero_batch
from ps_dqn.state import Counters
from ps_dqn.wire import bridge
from ps_dqn.wire.messages import PullRequest, PushHeader, Status
from ps_dqn.wire.report import Report


class Closures:
    """Everything the coordinator schedules, traced once each."""

    def __init__(
        self,
        config: Config,
        environment: EnvironmentSpec,
        store: ParameterStore,
        network: QNetwork,
        run_id: str,
    ):
        """Traces the training closure.

        Args:
            config: the experiment.
            environment: what the workers act in.
            store: the parameter servers.
            network: the Q-network.
            run_id: the same for every session of a run; workers find their replay by it.
        """
        self._config = config
        self._config_json = config.to_json()
        self._environment = environment
        self._store = store
        self._network = network
        self._run_id = run_id
        self._session = tf.constant(store.session, tf.int64)
        self._slots = tf.TensorSpec(
            [local_optimizer_slots(config), network.num_parameters], tf.float32
        )
        # Of a static shape, so that zeros in its place, after an error, have it too.
        self._requests = tf.TensorSpec([store.num_ps, len(PullRequest._fields)], tf.int64)
        # See `session.Sizes`.
        shape = [store.num_workers, store.num_ps, *reversed(self._slots.shape)]
        self._shape = tf.constant(shape, tf.int64)
        self._learn = make_learner(config, network)
        self.train = _trace(self._train, tf.TensorSpec([2], tf.int64))
        self.freeze = _trace(store.freeze)

    @functools.cache  # noqa: B019 - lives as long as the run
    def evaluate(self, episodes: int, freeze: bool) -> Any:
        """A closure of a seed (int64 []) that plays episodes with the frozen average.

        Args:
            episodes: how many, side by side.
            freeze: freeze it first; where several closures share an evaluation, `freeze` has done
                so before.

        Returns:
            The counters it was frozen at if `freeze` (int64 [4]), the returns (float64 [episodes])
            and an error text.
        """
        closure = functools.partial(self._evaluate, episodes, freeze)
        return _trace(closure, tf.TensorSpec([], tf.int64))

    def _train(self, tickets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """A closure of the tickets of its first push and of the oldest one, int64 [2].

        Returns:
            A `Report` as float64 [fields] and an error text.
        """
        worker = _this_worker()
        [requests] = bridge.call(
            "begin",
            worker,
            [self._session, self._run_id, self._config_json, self._shape, tickets],
            [self._requests],
        )
        pushes = self._config.parameter_server.pushes_per_closure
        _, _, going = tf.while_loop(
            lambda i, requests, going: (i < pushes) & (going > 0),
            lambda i, requests, going: (i + 1, *self._pull_learn_push(worker, requests)),
            (tf.constant(0), requests, tf.constant(1)),
            parallel_iterations=1,
        )
        with tf.control_dependencies([going]):
            fields = tf.TensorSpec([len(Report._fields)], tf.float64)
            ok, report = bridge.call("report", worker, [], [_MARK, fields])
        return report, _error(worker, ok, report)

    def _pull_learn_push(
        self, worker: tf.Tensor, requests: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One pull, what is learned from it, one push; the next requests, and 1 to go on."""
        pulled = self._pull(worker, requests)
        self._collect(worker, pulled)
        going, batch = self._sample(worker)
        learned = self._learn(
            pulled.online,
            pulled.target,
            pulled.slots,
            pulled.steps,
            pulled.learning_rate,
            pulled.epsilon,
            pulled.seed,
            batch,
        )

        def push() -> tf.Tensor:
            sums = tf.stack([learned.td_loss, learned.q_values, learned.grad_norm])
            outputs = [_HEADER, *[_BYTES] * self._store.num_ps]
            inputs = [learned.vector, learned.slots, sums, learned.errors]
            header, *packed = bridge.call("pack", worker, inputs, outputs)
            verdict = self._store.push(header, packed)
            return bridge.call("pushed", worker, [verdict], [self._requests])[0]

        return tf.cond(going > 0, push, lambda: requests), going

    def _pull(self, worker: tf.Tensor, requests: tf.Tensor) -> "_Pulled":
        """Pulls, again and again while others have to be waited for (sync)."""
        number, vector = (
            tf.TensorSpec([], tf.float32),
            tf.TensorSpec(self._slots.shape[1:], tf.float32),
        )
        acting = self._acting(self._config.environment.num_envs_per_worker)
        numbers = (number, number, number)  # steps, learning rate and ε
        specs = _Pulled(_MARK, vector, vector, self._slots, *numbers, _SEED, *acting, _MARK)

        def pull() -> _Pulled:
            return _Pulled(*bridge.call("pulled", worker, self._store.pull(requests), specs))

        if self._config.parameter_server.aggregation == "async":
            return pull()
        nothing = _Pulled(*(tf.zeros(spec.shape, spec.dtype) for spec in specs))
        return tf.while_loop(
            lambda pulled: pulled.status == int(Status.WAIT),
            lambda _: (pull(),),
            (nothing._replace(status=tf.constant(int(Status.WAIT))),),
            parallel_iterations=1,
        )[0]

    def _collect(self, worker: tf.Tensor, pulled: "_Pulled") -> None:
        """Steps the environments: as often as a push is worth, and until replay is warm."""
        specs = [*self._acting(self._config.environment.num_envs_per_worker), _MARK]

        def step(i, observations, state, more):  # type: ignore[no-untyped-def]
            noise_seed = seeds.derive(pulled.seed, seeds.Purpose.ACTING + i)
            greedy, state = self._network.act(pulled.online, observations, state, noise_seed)
            return i + 1, *bridge.call("step", worker, [greedy, state], specs)

        tf.while_loop(
            lambda i, observations, state, more: more > 0,
            step,
            [tf.constant(0), pulled.observations, pulled.state, pulled.more],
            parallel_iterations=1,
        )

    def _sample(self, worker: tf.Tensor) -> tuple[tf.Tensor, Batch]:
        zeros = zero_batch(self._config, self._environment)
        specs = [tf.TensorSpec(array.shape, array.dtype) for array in zeros]
        ok, *batch = bridge.call("sample", worker, [], [_MARK, *specs])
        return ok, type(zeros)(*batch)

    def _evaluate(
        self, episodes: int, freeze: bool, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        worker = _this_worker()
        counters = self._store.freeze() if freeze else tf.zeros([len(Counters._fields)], tf.int64)
        parameters = self._store.pull_frozen(after=counters)
        observations, state = self._acting(episodes)
        [observed] = bridge.call(
            "evaluate_begin",
            worker,
            [self._session, self._config_json, seed, episodes],
            [observations],
        )

        def step(playing, observed, state):  # type: ignore[no-untyped-def]
            # Each environment plays one episode, so its state need not be reset.
            greedy, state = self._network.act(parameters, observed, state)
            observed, playing = bridge.call(
                "evaluate_step", worker, [greedy], [observations, _MARK]
            )
            return playing, observed, state

        playing, *_ = tf.while_loop(
            lambda playing, observed, state: playing > 0,
            step,
            [tf.constant(episodes), observed, tf.zeros(state.shape)],
            parallel_iterations=1,
        )
        with tf.control_dependencies([playing]):
            returns = tf.TensorSpec([episodes], tf.float64)
            ok, returns = bridge.call("evaluate_end", worker, [], [_MARK, returns])
        return counters, returns, _error(worker, ok, returns)

    def _acting(self, count: int) -> tuple[tf.TensorSpec, tf.TensorSpec]:
        """Observations to act on and recurrent states of so many environments."""
        shape = [count, *self._environment.observation_shape]
        return (
            tf.TensorSpec(shape, self._environment.observation_dtype),
            tf.TensorSpec([count, self._network.state_size], tf.float32),
        )


class _Pulled(NamedTuple):
    """What `session.Session.pulled` returns."""

    status: Any
    online: Any
    target: Any
    slots: Any
    steps: Any
    learning_rate: Any
    epsilon: Any
    seed: Any
    observations: Any
    state: Any
    more: Any


_MARK = tf.TensorSpec([], tf.int32)
_SEED = tf.TensorSpec([2], tf.int32)
_HEADER = tf.TensorSpec([len(PushHeader._fields)], tf.int64)
_BYTES = tf.TensorSpec([None], tf.uint8)


def _trace(function: Callable[..., Any], *signature: tf.TensorSpec) -> Any:
    """Traces a closure now, rather than when it is first scheduled.

    Without autograph, which would spend seconds on rewriting code that has no Python control
    flow to rewrite.
    """
    return tf.function(function, autograph=False).get_concrete_function(*signature)


def _this_worker() -> tf.Tensor:
    return tf.distribute.coordinator.experimental_get_current_worker_index()


def _error(worker: tf.Tensor, ok: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """The error text of this closure, string []; asks the worker only if something failed."""
    return tf.cond(
        ok > 0, lambda: tf.constant(""), lambda: bridge.take_error(worker, after=[after])
    )
