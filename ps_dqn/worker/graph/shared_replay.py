"""What actors and learners do between a pull and a push, where replay servers keep experience.

Ape-X (Horgan et al. 2018, arXiv:1803.00933). Every worker has the same graph, and its index says
which half of it runs, so a closure may go to whoever is free, as everywhere else. `acting` and
`learning` are the Python of the two.
"""

from typing import Any

import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning import masking
from ps_dqn.learning.result import Learned
from ps_dqn.networks.network import QNetwork
from ps_dqn.replay.batch import zero_batch
from ps_dqn.replay_server.store import ReplayStore
from ps_dqn.worker import calls
from ps_dqn.worker.calls import Caller, Plan, Pulled, Sizes
from ps_dqn.worker.graph import behaviour
from ps_dqn.worker.graph.behaviour import Behaviour
from ps_dqn.worker.graph.parts import (
    Made,
    OwnReplay,
    Part,
    acting_specs,
    plan_specs,
    traced_learner,
)
from ps_dqn.worker.roles.learning import Weighed


class SharedReplay:
    """Learners are the first workers, actors the others."""

    def __init__(
        self,
        config: Config,
        environment: EnvironmentSpec,
        network: QNetwork,
        acts: Behaviour,
        sizes: Sizes,
        replay: ReplayStore,
        on_gpus: bool,
    ):
        """Traces the update loop.

        Args:
            config: the experiment.
            environment: what the actors act in.
            network: the Q-network.
            acts: how actors do.
            sizes: of the run.
            replay: the replay servers.
            on_gpus: whether all learners learn on GPUs.
        """
        self._config, self._behaviour, self._replay = config, acts, replay
        self._sizes, self._num_learners = sizes, config.topology.num_learners
        self._acting = acting_specs(config, environment, network)
        nothing: Any = ()  # who learns acts on nothing
        self._plan = plan_specs(config, sizes, nothing)
        batch = zero_batch(config, environment)
        self._weighed = Weighed.specs(batch)
        self._learn = traced_learner(config, network, self._plan, batch, on_gpus)

    def __call__(self, caller: Caller, pulled: Pulled) -> Made:
        """Learns, or collects."""
        return tf.cond(
            tf.cast(caller.worker, tf.int32) < self._num_learners,
            lambda: self._made_by_learning(caller, pulled),
            lambda: self._made_by_acting(caller, pulled),
        )

    def _made_by_learning(self, caller: Caller, pulled: Pulled) -> Made:
        plan: Plan = caller.call("plan", [pulled.status], self._plan)
        rows, numbers, batch = self._replay.draw(after=plan.seed)
        given = [rows, numbers, batch.weights]
        weighed: Weighed = caller.call("weigh", given, self._weighed)
        learned = self._learn(pulled, plan, batch._replace(weights=weighed.weights))
        # What was learned without parameters, at the end of a closure that waited, says nothing.
        heard = tf.where(weighed.should_push > 0, numbers, tf.zeros_like(numbers))
        with tf.control_dependencies([self._replay.update(heard, learned.errors)]):
            return Made(weighed.should_push, tf.nest.map_structure(tf.identity, learned))

    def _made_by_acting(self, caller: Caller, pulled: Pulled) -> Made:
        plan: Plan = caller.call("plan", [pulled.status], self._plan._replace(acting=self._acting))
        weights = self._behaviour.weights(pulled.online)
        behaviour.collect(self._behaviour, caller, weights, plan.seed, plan.acting)
        parcels = [calls.Spec((None,), "uint8")] * self._replay.num_servers
        sent = caller.call("hand_over", [], parcels)
        actor = tf.cast(caller.worker, tf.int64) - self._num_learners
        answers = self._replay.add(actor, sent)
        should_push = caller.call("handed_over", [answers], calls.MARK)
        return Made(should_push, self._nothing(plan))

    def _nothing(self, plan: Plan) -> Learned:
        """Of who does not learn."""
        sizes, zero = self._sizes, tf.zeros([])
        growth = masking.growth_size(self._config.pruning, sizes.num_parameters)
        minibatches = self._config.parameter_server.local_updates, self._config.learning.batch_size
        return Learned(
            vector=tf.zeros([sizes.num_parameters]),
            slots=tf.zeros(sizes.slots_shape),
            td_loss=zero,
            q_values=zero,
            grad_norm=zero,
            errors=tf.zeros(minibatches),
            entropy=zero,
            loss_scale=plan.loss_scale,
            growth=tf.zeros([growth]),
        )


def make_part(
    config: Config,
    environment: EnvironmentSpec,
    network: QNetwork,
    acts: Behaviour,
    sizes: Sizes,
    replay: ReplayStore,
    on_gpus: bool,
) -> Part:
    """What the configuration's workers do between a pull and a push.

    Args:
        config: the experiment.
        environment: what is acted in.
        network: the Q-network.
        acts: how.
        sizes: of the run.
        replay: the replay servers, or a store of none.
        on_gpus: whether whoever learns does so on a GPU.
    """
    if replay.num_servers:
        return SharedReplay(config, environment, network, acts, sizes, replay, on_gpus)
    return OwnReplay(config, environment, network, acts, sizes, on_gpus)
