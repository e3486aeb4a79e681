"""The functions that run on workers: train, snapshot, evaluate.

A training closure is: pull -> collect -> sample -> local updates -> push, as often as
`pushes_per_closure` says, and a report.

Shapes: E environments, M minibatches (= local updates), B transitions each, P parameters,
S optimizer slots.
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ps_dqn import bridge, exploration
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learner import QFunction, greedy_actions, local_optimizer_slots, make_learner
from ps_dqn.parameters import ParameterStore, Pulled
from ps_dqn.replay import Transitions
from ps_dqn.reports import Report
from ps_dqn.state import Counters


class Closures:
    """Everything the coordinator schedules, traced once each."""

    def __init__(
        self,
        config: Config,
        environment: EnvironmentSpec,
        store: ParameterStore,
        q_function: QFunction,
        num_parameters: int,
        num_workers: int,
        session: str,
    ):
        self._config = config
        self._config_json = config.to_json()
        self._environment = environment
        self._store = store
        self._greedy = functools.partial(greedy_actions, q_function)
        self._num_workers = num_workers
        self._session = session
        self._slots = tf.TensorSpec([local_optimizer_slots(config), num_parameters], tf.float32)
        self._learn = make_learner(config, q_function)
        self.train = _trace(self._train)
        self.snapshot = _trace(self._take_snapshot)

    @functools.cache  # noqa: B019 - lives as long as the run
    def evaluate(self, episodes: int, freeze: bool) -> Any:
        """A closure of a seed (int64 []) that plays episodes with the snapshot.

        Args:
            episodes: how many, side by side.
            freeze: take the snapshot first; where several closures share an evaluation, `snapshot`
                has taken it before.

        Returns:
            The counters at the snapshot if `freeze` (int64 [4]), the returns (float64 [episodes])
            and an error text.
        """
        closure = functools.partial(self._evaluate, episodes, freeze)
        return _trace(closure, tf.TensorSpec([], tf.int64))

    def _train(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a `Report` as float64 [fields] and an error text."""
        worker = _this_worker()
        slots, steps = bridge.call(
            "begin",
            worker,
            [self._session, self._config_json, tf.zeros(self._slots.shape)],
            [self._slots, tf.TensorSpec([], tf.int64)],
        )
        pushes = self._config.parameter_server.pushes_per_closure
        state = (slots, steps, tf.zeros([2], tf.float64), tf.zeros([6], tf.float64), tf.constant(1))
        if pushes == 1:
            *_, latest, sums, ok = self._pull_learn_push(worker, *state)
        else:
            *_, latest, sums, ok = tf.while_loop(
                lambda i, slots, steps, latest, sums, ok: (i < pushes) & (ok > 0),
                lambda i, *state: (i + 1, *self._pull_learn_push(worker, *state)),
                (tf.constant(0), *state),
                parallel_iterations=1,
            )
        fields = tf.TensorSpec([len(Report._fields)], tf.float64)
        [report] = bridge.call("report", worker, [latest, sums], [fields])
        return report, _error(worker, ok, report)

    def _pull_learn_push(self, worker, slots, steps, latest, sums, ok):  # type: ignore[no-untyped-def]
        """One pull, what is learned from it, one push; takes and returns the loop's state."""
        learning, updates = self._config.learning, self._config.parameter_server.local_updates
        with tf.control_dependencies([slots, sums]):
            pulled = self._store.pull()
        epsilon = self._epsilon(worker, pulled)
        self._collect(worker, pulled, epsilon)
        ok, batch, env_steps, episodes = self._sample(worker)
        learning_rate = exploration.linear(
            learning.learning_rate,
            learning.learning_rate_end,
            learning.learning_rate_decay_steps,
            pulled.counters.env_steps,
        )
        learned = self._learn(
            pulled.online, pulled.target, slots, tf.cast(steps, tf.float32), learning_rate, batch
        )
        steps += updates
        with tf.control_dependencies([learned.vector]):
            [kept] = bridge.call("keep", worker, [learned.slots, steps], [_MARK])
        with tf.control_dependencies([kept]):
            moved = [1, updates, env_steps, episodes]
            version = tf.cond(
                ok > 0,
                lambda: self._store.push(learned.vector, learning_rate, moved).version,
                lambda: pulled.counters.version,
            )
        with tf.control_dependencies([version]):
            bridge.call("pushed", worker, [], [_MARK])
        latest = _float64(version, epsilon)
        staleness = tf.maximum(version - 1 - pulled.counters.version, 0)
        sums += _float64(
            staleness, 1, updates, learned.td_loss, learned.q_values, learned.grad_norm
        )
        return learned.slots, steps, latest, sums, ok

    def _epsilon(self, worker: tf.Tensor, pulled: Pulled) -> tf.Tensor:
        options = self._config.exploration
        epsilon = exploration.linear(
            options.epsilon_start,
            options.epsilon_end,
            options.epsilon_decay_steps,
            pulled.counters.env_steps,
        )
        if options.epsilon_ladder:
            return exploration.ladder(epsilon, worker, self._num_workers)
        return epsilon

    def _collect(self, worker: tf.Tensor, pulled: Pulled, epsilon: tf.Tensor) -> None:
        """Steps the environments: as often as a push is worth, and until replay is warm."""
        specs = [
            self._observations(self._config.environment.num_envs_per_worker),
            tf.TensorSpec([], tf.int64),
        ]
        with tf.control_dependencies([pulled.online, pulled.target, pulled.counters.version]):
            observations, missing = bridge.call("observe", worker, [], specs)
        steps = self._config.vector_steps_per_push

        def step(i, observations, missing):  # type: ignore[no-untyped-def]
            greedy = self._greedy(pulled.online, observations)
            return i + 1, *bridge.call("step", worker, [greedy, epsilon], specs)

        tf.while_loop(
            lambda i, observations, missing: (i < steps) | (missing > 0),
            step,
            [tf.constant(0), observations, missing],
            parallel_iterations=1,
        )

    def _sample(self, worker: tf.Tensor) -> tuple[tf.Tensor, Transitions, tf.Tensor, tf.Tensor]:
        shape = [self._config.parameter_server.local_updates, self._config.learning.batch_size]
        observations = tf.TensorSpec(
            [*shape, *self._environment.observation_shape], self._environment.observation_dtype
        )
        floats = tf.TensorSpec(shape, tf.float32)
        count = tf.TensorSpec([], tf.int64)
        ok, *batch, env_steps, episodes = bridge.call(
            "sample",
            worker,
            [],
            [
                _MARK,
                *Transitions(
                    observations, tf.TensorSpec(shape, tf.int32), floats, floats, observations
                ),
                count,
                count,
            ],
        )
        return ok, Transitions(*batch), env_steps, episodes

    def _take_snapshot(self) -> tf.Tensor:
        """Returns the counters of the frozen parameters, int64 [4]."""
        return tf.stack(list(self._store.take_snapshot()))

    def _evaluate(
        self, episodes: int, freeze: bool, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        worker = _this_worker()
        counters = self._take_snapshot() if freeze else tf.zeros([len(Counters._fields)], tf.int64)
        parameters = self._store.pull_snapshot()
        observations = self._observations(episodes)
        [observed] = bridge.call(
            "evaluate_begin",
            worker,
            [self._session, self._config_json, seed, episodes],
            [observations],
        )

        def step(playing, observed):  # type: ignore[no-untyped-def]
            greedy = self._greedy(parameters, observed)
            observed, playing = bridge.call(
                "evaluate_step", worker, [greedy], [observations, _MARK]
            )
            return playing, observed

        playing, _ = tf.while_loop(
            lambda playing, observed: playing > 0,
            step,
            [tf.constant(episodes), observed],
            parallel_iterations=1,
        )
        with tf.control_dependencies([playing]):
            returns = tf.TensorSpec([episodes], tf.float64)
            ok, returns = bridge.call("evaluate_end", worker, [], [_MARK, returns])
        return counters, returns, _error(worker, ok, returns)

    def _observations(self, count: int) -> tf.TensorSpec:
        shape = [count, *self._environment.observation_shape]
        return tf.TensorSpec(shape, self._environment.observation_dtype)


_MARK = tf.TensorSpec([], tf.int32)


def _trace(function: Callable[..., Any], *signature: tf.TensorSpec) -> Any:
    """Traces a closure now, rather than when it is first scheduled.

    Without autograph, which would spend seconds on rewriting code that has no Python control
    flow to rewrite.
    """
    return tf.function(function, autograph=False).get_concrete_function(*signature)


def _this_worker() -> tf.Tensor:
    return tf.distribute.coordinator.experimental_get_current_worker_index()


def _float64(*values: Any) -> tf.Tensor:
    return tf.stack([tf.cast(value, tf.float64) for value in values])


def _error(worker: tf.Tensor, ok: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """The error text of this closure, string []; asks the worker only if something failed."""
    return tf.cond(
        ok > 0, lambda: tf.constant(""), lambda: bridge.take_error(worker, after=[after])
    )
