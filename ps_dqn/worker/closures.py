"""The functions that run on workers: train, freeze, evaluate.

A training closure is: pull -> collect -> sample -> local updates -> push, as often as its `Tickets`
say, and a report. TensorFlow runs calls of a worker in the order in which they are traced, but what
`_exchange` does, push and the next pull, goes on beside them as soon as learning ends: where
environments are stepped while learning, its time hides behind theirs too.

Shapes: E environments, M minibatches (= local updates), B transitions each, P parameters,
S optimizer slots.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn import seeds
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.learner import local_optimizer_slots, make_learner
from ps_dqn.learning.result import Learned
from ps_dqn.networks.network import QNetwork
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.replay.batch import zero_batch
from ps_dqn.run import compile_cache
from ps_dqn.state import Counters
from ps_dqn.telemetry.report import Report
from ps_dqn.wire import bridge, failures
from ps_dqn.wire.messages import Status
from ps_dqn.worker import calls
from ps_dqn.worker.calls import (
    Acting,
    Begun,
    Caller,
    Packed,
    Plan,
    Played,
    Playing,
    Pulled,
    Reported,
    Sampled,
)


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
        self._environment = environment
        self._store = store
        self._network = network
        num_slots = local_optimizer_slots(config)
        sizes = calls.Sizes(
            store.num_workers, store.num_ps, network.num_parameters, num_slots, network.num_moments
        )
        session, log_id = np.int64(store.session), np.int64(store.log_id)
        self.rejoin = calls.Rejoin(session, log_id, run_id, config.to_json(), np.array(sizes))
        self._begun = Begun.specs(store.num_ps)
        self._packed = Packed.specs(sizes)
        self._pulled = Pulled.specs(network.num_parameters)
        acting = self._acting(config.environment.envs_per_worker)
        self._plan = Plan.specs(sizes, acting)
        self._sampled = Sampled.specs(zero_batch(config, environment), acting)
        # First, and so always under the same name.
        compile_cache.settle_names()
        self._learn = self._traced_learner()
        self._evaluations: dict[tuple[int, bool], Any] = {}
        self.train = _trace(self._train, tf.TensorSpec([len(calls.Tickets._fields)], tf.int64))
        self.freeze = _trace(store.freeze)

    def _traced_learner(self) -> Callable[..., Learned]:
        """What a worker computes for a push, of what it pulls, plans and samples."""
        inputs = (
            self._pulled.online,
            self._pulled.target,
            self._plan.slots,
            self._plan.steps,
            self._plan.learning_rate,
            self._plan.epsilon,
            self._plan.seed,
            self._sampled.batch,
        )
        specs = tf.nest.map_structure(lambda spec: tf.TensorSpec(spec.shape, spec.dtype), inputs)
        learner: Any = make_learner(self._config, self._network)
        return learner.get_concrete_function(*specs)

    def evaluate(self, episodes: int, freeze: bool) -> Any:
        """A closure of a seed (int64 []) that plays episodes with the frozen average.

        Args:
            episodes: how many, side by side.
            freeze: freeze it first; where several closures share an evaluation, `freeze` has done
                so before.

        Returns:
            The counters it was frozen at if `freeze` (int64 [fields]), the returns (float64
            [episodes]) and an error text.
        """
        kind = episodes, freeze
        if kind not in self._evaluations:
            closure = functools.partial(self._evaluate, *kind)
            self._evaluations[kind] = _trace(closure, tf.TensorSpec([], tf.int64))
        return self._evaluations[kind]

    def _train(self, tickets: tf.Tensor) -> tf.Tensor:
        """A closure of `Tickets`, int64 [4].

        Returns:
            What `read_report` reads, float64 [fields + bytes of the error text]: one tensor, since
            the coordinator fetches each by a call of its own.
        """
        worker = _this_worker()
        begin = calls.Begin(*self.rejoin, tickets)
        begun: Begun = bridge.call("begin", worker, begin, self._begun)
        caller = Caller(worker, begun.closure)
        pushes = tickets[calls.Tickets._fields.index("pushes")]

        def push(i: tf.Tensor, pulled: Pulled, _: tf.Tensor) -> tuple[tf.Tensor, Pulled, tf.Tensor]:
            return i + 1, *self._learn_and_push(caller, pulled, is_last=i + 1 == pushes)

        *_, has_pushed = tf.while_loop(
            lambda i, pulled, has_pushed: (i < pushes) & (has_pushed > 0),
            push,
            (tf.constant(0, tf.int64), self._pull(caller, begun.requests), tf.constant(1)),
            parallel_iterations=1,
        )
        with tf.control_dependencies([has_pushed]):
            reported: Reported = caller.call("report", [], Reported.specs())
        error = _error(worker, reported.ok, reported.report)
        with tf.device("CPU:0"):
            text = tf.cast(tf.io.decode_raw(error, tf.uint8), tf.float64)
            return tf.concat([reported.report, text], 0)

    def _learn_and_push(
        self, caller: Caller, pulled: Pulled, is_last: tf.Tensor
    ) -> tuple[Pulled, tf.Tensor]:
        """What is learned from a pull, and a push; the next pull, and 1 if it pushed."""
        plan: Plan = caller.call("plan", [pulled.status], self._plan)
        self._collect(caller, pulled.online, plan.seed, plan.acting)
        sampled: Sampled = caller.call("sample", [], self._sampled)
        if self._config.parameter_server.overlap == "on":
            # Learning is pure, so nothing puts it in an order with these calls: both run at once.
            self._collect(caller, pulled.online, plan.seed, sampled.acting)
            caller.call("prepare", [], calls.MARK)
        learned = self._learn(
            pulled.online,
            pulled.target,
            plan.slots,
            plan.steps,
            plan.learning_rate,
            plan.epsilon,
            plan.seed,
            sampled.batch,
        )
        pulled, has_pushed = tf.cond(
            sampled.should_push > 0,
            lambda: self._exchange(caller, learned, pulled, is_last),
            lambda: (pulled, tf.constant(0)),
        )
        _run_beside(has_pushed)
        return pulled, has_pushed

    def _exchange(
        self, caller: Caller, learned: Learned, pulled: Pulled, is_last: tf.Tensor
    ) -> tuple[Pulled, tf.Tensor]:
        """Pushes; the next pull, of which the last push of a closure needs none, and a mark."""
        packed: Packed = caller.call("pack", learned, self._packed, in_order=False)
        verdict = self._store.push(packed.header, packed.messages)
        requests = caller.call("pushed", [verdict], self._begun.requests, in_order=False)
        pulled = tf.cond(is_last, lambda: pulled, lambda: self._pull(caller, requests))
        with tf.control_dependencies([requests]):
            return pulled, tf.constant(1)

    def _pull(self, caller: Caller, requests: tf.Tensor) -> Pulled:
        """Pulls, again and again while others have to be waited for (sync, or at a reset)."""

        def pull() -> Pulled:
            replies = self._store.pull(requests)
            return caller.call("pulled", replies, self._pulled, in_order=False)

        if not (self._config.parameter_server.is_synchronous or self._config.resets.reset_period):
            return pull()
        nothing = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), self._pulled)
        return tf.while_loop(
            lambda pulled: pulled.status == int(Status.WAIT),
            lambda _: (pull(),),
            (nothing._replace(status=tf.constant(int(Status.WAIT))),),
            parallel_iterations=1,
        )[0]

    def _collect(self, caller: Caller, online: tf.Tensor, seed: tf.Tensor, acting: Acting) -> None:
        """Steps the environments as often as the worker says, beginning with `acting`."""

        def step(acting: Acting) -> tuple[Acting]:
            noise_seed = seeds.derive(seed, seeds.Purpose.ACTING + acting.step)
            acted = calls.Acted(
                *self._network.act(
                    online, acting.observations, acting.state, noise_seed, acting.masks
                )
            )
            return (caller.call("step", acted, self._plan.acting),)

        tf.while_loop(lambda acting: acting.should_act > 0, step, (acting,), parallel_iterations=1)

    def _evaluate(
        self, episodes: int, freeze: bool, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        worker = _this_worker()
        counters = tf.zeros([len(Counters._fields)], tf.int64)
        if self._config.parameter_server.is_synchronous:
            # The others need not wait until it has played.
            counters = self._store.leave(tf.cast(worker, tf.int64))
        if freeze:
            with tf.control_dependencies([counters]):
                counters = self._store.freeze()
        parameters = self._store.pull_frozen(after=counters)
        specs = Playing.specs(self._acting(episodes))
        whose = (self.rejoin.session, self.rejoin.config)
        begin = calls.EvaluateBegin(*whose, seed, episodes)
        outputs = (calls.NUMBER, specs)
        closure, begun = bridge.call("evaluate_begin", worker, begin, outputs)
        caller = Caller(worker, closure)

        def step(playing: Playing) -> tuple[Playing]:
            shown = playing.observations, playing.state
            acted = calls.Acted(*self._network.act(parameters, *shown, masks=playing.masks))
            return (caller.call("evaluate_step", acted, specs),)

        (playing,) = tf.while_loop(
            lambda playing: playing.episodes > 0,
            step,
            (begun,),
            parallel_iterations=1,
        )
        with tf.control_dependencies([playing.episodes]):
            played: Played = caller.call("evaluate_end", [], Played.specs(episodes))
        return counters, played.returns, _error(worker, played.ok, played.returns)

    def _acting(self, num_envs: int) -> Acting:
        """Specs of what so many environments show."""
        return Acting.specs(num_envs, self._environment, self._network.state_size)


def read_report(value: np.ndarray) -> tuple[np.ndarray, bytes]:
    """A `Report` as float64 [fields], and an error text, of what a training closure returned."""
    size = len(Report._fields)
    return value[:size], value[size:].astype(np.uint8).tobytes()


def _trace(function: Callable[..., Any], *signature: tf.TensorSpec) -> Any:
    """Traces a closure now, rather than when it is first scheduled.

    Without autograph, which would spend seconds on rewriting code that has no Python control
    flow to rewrite. It is registered with every task, one of which may be lost meanwhile.
    """
    try:
        return tf.function(function, autograph=False).get_concrete_function(*signature)
    except tf.errors.OpError as error:
        raise failures.lost(error) from error


def _run_beside(result: tf.Tensor) -> None:
    """Lets what made a result, a `tf.cond`, run as soon as it can, whatever was traced before."""
    operation = result.op
    while operation.type == "Identity":
        operation = operation.inputs[0].op
    operation.graph.experimental_acd_manager.run_independently(operation)


def _this_worker() -> tf.Tensor:
    return tf.distribute.coordinator.experimental_get_current_worker_index()


def _error(worker: tf.Tensor, ok: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """The error text of this closure, string []; asks the worker only if something failed."""
    return tf.cond(
        ok > 0, lambda: tf.constant(""), lambda: bridge.take_error(worker, after=[after])
    )
