"""The functions that run on workers: train, freeze, evaluate.

A training closure is: pull -> collect -> sample -> local updates -> push, as often as its `Tickets`
say, and a report; `parts` has what is between a pull and a push. TensorFlow runs calls of a worker
in the order in which they are traced, but what `_exchange` does, push and the next pull, goes on
beside them as soon as learning ends: where environments are stepped while learning, its time hides
behind theirs too.

Shapes: E environments, M minibatches (= local updates), B transitions each, P parameters,
S optimizer slots.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning import masking
from ps_dqn.learning.learner import compiled_by_xla, local_optimizer_slots
from ps_dqn.learning.result import Learned
from ps_dqn.networks.network import QNetwork
from ps_dqn.replay_server.store import ReplayStore
from ps_dqn.run import compile_cache
from ps_dqn.state import Counters
from ps_dqn.store import Store, this_worker
from ps_dqn.telemetry.report import Report
from ps_dqn.wire import bridge, failures
from ps_dqn.wire.messages import Status
from ps_dqn.worker import calls
from ps_dqn.worker.calls import (
    Begun,
    Caller,
    Packed,
    Played,
    Playing,
    Pulled,
    Reported,
)
from ps_dqn.worker.graph.behaviour import Behaviours
from ps_dqn.worker.graph.parts import acting_specs
from ps_dqn.worker.graph.shared_replay import make_part


class Closures:
    """Everything the coordinator schedules, traced once each."""

    def __init__(
        self,
        config: Config,
        environment: EnvironmentSpec,
        store: Store,
        replay: ReplayStore,
        network: QNetwork,
        acts: Behaviours,
        run_id: str,
        loss_scale: int = 1,
        on_gpus: bool = False,
    ):
        """Traces the training closure.

        Args:
            config: the experiment.
            environment: what the workers act in.
            store: of the run.
            replay: the replay servers; of none where each worker has its own replay.
            network: the Q-network.
            acts: how workers act.
            run_id: the same for every session of a run; workers find their replay by it.
            loss_scale: that workers begin with, where there is one.
            on_gpus: whether whoever learns does so on a GPU.
        """
        self._config = config
        self._environment = environment
        self._store = store
        self._network = network
        num_slots = local_optimizer_slots(config)
        sizes = calls.Sizes(
            *(store.num_workers, store.num_ps, network.num_parameters),
            *(num_slots, network.num_moments, replay.num_servers),
        )
        session, log_id = np.int64(store.session), np.int64(store.log_id)
        whose = session, log_id, run_id, config.to_json(), np.array(sizes)
        self.rejoin = calls.Rejoin(*whose, np.int64(loss_scale))
        self._begun = Begun.specs(store.num_ps)
        self._packed = Packed.specs(sizes)
        size = network.num_parameters
        self._pulled = Pulled.specs(size, masking.size(config.pruning, size))
        if compiled_by_xla(config, network, on_gpus) == "update":
            # Nothing is left that is quicker when TensorFlow has rewritten it, and a worker needs
            # a sixth of a second for that before its first closure.
            tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        # First, and so always under the same name.
        compile_cache.settle_names()
        self._program = acts.program
        self._part = make_part(
            *(config, environment, network, acts.collecting, sizes, replay, on_gpus)
        )
        self._evaluations: dict[tuple[int, bool], Any] = {}
        self.train = _trace(self._train, tf.TensorSpec([len(calls.Tickets._fields)], tf.int64))
        self.freeze, self.keeps_frozen = _trace(store.freeze), store.keeps_frozen

    def evaluate(self, episodes: int, freeze: bool) -> Any:
        """A closure that plays episodes with the frozen average.

        It takes a seed, int64 [], and that average, float32 [P], or [0] where the store keeps it.

        Args:
            episodes: how many, side by side.
            freeze: freeze it first, where the store keeps it; else, and where several closures
                share an evaluation, `freeze` has done so before.

        Returns:
            The counters it was frozen at if `freeze` (int64 [fields]), the returns (float64
            [episodes]) and an error text.
        """
        kind = episodes, freeze
        if kind not in self._evaluations:
            closure = functools.partial(self._evaluate, *kind)
            brought = tf.TensorSpec([0 if self.keeps_frozen else self._network.num_parameters])
            self._evaluations[kind] = _trace(closure, tf.TensorSpec([], tf.int64), brought)
        return self._evaluations[kind]

    def _train(self, tickets: tf.Tensor) -> tf.Tensor:
        """A closure of `Tickets`, int64 [4].

        Returns:
            What `read_report` reads, float64 [fields + bytes of the error text]: one tensor, since
            the coordinator fetches each by a call of its own.
        """
        worker = this_worker()
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
        made = self._part(caller, pulled)
        pulled, has_pushed = tf.cond(
            made.should_push > 0,
            lambda: self._exchange(caller, made.learned, pulled, is_last),
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
        """Pulls, again and again while others have to be waited for (`Config.pulls_again`)."""

        def pull() -> Pulled:
            replies = self._store.pull(requests)
            return caller.call("pulled", replies, self._pulled, in_order=False)

        if not self._config.pulls_again:
            return pull()
        # What a loop begins with is made each time: zeros in place of parameters would cost.
        ranks = [len(spec.shape) for spec in self._pulled]
        nothing = Pulled(*[tf.zeros([0] * rank) for rank in ranks])
        pulled = tf.while_loop(
            lambda pulled: pulled.status == int(Status.WAIT),
            lambda _: (pull(),),
            (nothing._replace(status=tf.constant(int(Status.WAIT))),),
            shape_invariants=(Pulled(*[tf.TensorShape([None] * rank) for rank in ranks]),),
            parallel_iterations=1,
        )[0]
        specs = zip(pulled, self._pulled, strict=True)
        return Pulled(*[tf.ensure_shape(each, spec.shape) for each, spec in specs])

    def _evaluate(
        self, episodes: int, freeze: bool, seed: tf.Tensor, brought: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        worker = this_worker()
        counters = tf.zeros([len(Counters._fields)], tf.int64)
        if self._config.parameter_server.is_synchronous:
            # The others need not wait until it has played.
            counters = self._store.leave(tf.cast(worker, tf.int64))
        if freeze:
            with tf.control_dependencies([counters]):
                counters = self._store.freeze().counters
        parameters = self._store.pull_frozen(after=counters, brought=brought)
        acting = acting_specs(self._config, self._environment, self._network, episodes)
        specs = Playing.specs(acting)
        begin = (*self.rejoin, seed, episodes)
        outputs = (calls.NUMBER, specs)
        closure, begun = bridge.call("evaluate_begin", worker, begin, outputs)
        caller = Caller(worker, closure)

        def step(playing: Playing) -> tuple[Playing]:
            if self._program:
                return (caller.call("evaluate_steps", [parameters, self._program], specs),)
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


def _error(worker: tf.Tensor, ok: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """The error text of this closure, string []; asks the worker only if something failed."""
    return tf.cond(
        ok > 0, lambda: tf.constant(""), lambda: bridge.take_error(worker, after=[after])
    )
