"""What a worker does between a pull and a push, as a part of the training closure's graph.

Where its minibatches come from is the part's own business; the closure pulls before it and pushes
what it has learned. `calls` has what it exchanges with the worker's Python.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning import loss_scaling, masking
from ps_dqn.learning.learner import make_learner
from ps_dqn.learning.result import Learned
from ps_dqn.networks.network import QNetwork
from ps_dqn.replay.batch import zero_batch
from ps_dqn.worker import calls
from ps_dqn.worker.calls import Acting, Caller, Plan, Pulled, Sampled, Sizes
from ps_dqn.worker.graph import behaviour
from ps_dqn.worker.graph.behaviour import Behaviour


class Made(NamedTuple):
    """What there is to push."""

    should_push: tf.Tensor  # int32 []: 0 where the closure is to end without a push
    learned: Learned


class Part(Protocol):
    """All between a pull and a push."""

    def __call__(self, caller: Caller, pulled: Pulled) -> Made:
        """Adds it to the graph of a closure that has pulled."""


class OwnReplay:
    """A worker collects, and learns from what it remembers itself."""

    def __init__(
        self,
        config: Config,
        environment: EnvironmentSpec,
        network: QNetwork,
        acts: Behaviour,
        sizes: Sizes,
        on_gpus: bool,
    ):
        """Traces the update loop.

        Args:
            config: the experiment.
            environment: what the workers act in.
            network: the Q-network.
            acts: how.
            sizes: of the run.
            on_gpus: whether all of them learn on GPUs.
        """
        acting = acting_specs(config, environment, network)
        self._behaviour = acts
        self._overlaps = config.parameter_server.overlap == "on"
        self._plan = plan_specs(config, sizes, acting)
        self._sampled = Sampled.specs(zero_batch(config, environment), acting)
        batch = self._sampled.batch
        self._learn = traced_learner(config, network, self._plan, batch, on_gpus)

    def __call__(self, caller: Caller, pulled: Pulled) -> Made:
        """Collects, samples, learns."""
        plan: Plan = caller.call("plan", [pulled.status], self._plan)
        weights = self._behaviour.weights(pulled.online)
        behaviour.collect(self._behaviour, caller, weights, plan.seed, plan.acting)
        sampled: Sampled = caller.call("sample", [], self._sampled)
        if self._overlaps:
            # Learning is pure, so nothing puts it in an order with these calls: both run at once.
            behaviour.collect(self._behaviour, caller, weights, plan.seed, sampled.acting)
            caller.call("prepare", [], calls.MARK)
        return Made(sampled.should_push, self._learn(pulled, plan, sampled.batch))


def plan_specs(config: Config, sizes: Sizes, acting: Acting) -> Plan:
    """Specs of a worker's plan, and what it acts on."""
    return Plan.specs(sizes, acting, loss_scaling.make(config.precision).num_numbers)


def acting_specs(
    config: Config, environment: EnvironmentSpec, network: QNetwork, num_envs: int | None = None
) -> Acting:
    """Specs of what so many environments show; None: those of a worker."""
    if num_envs is None:
        num_envs = config.environment.envs_per_worker
    return Acting.specs(num_envs, environment, network.state_size)


def traced_learner(
    config: Config, network: QNetwork, plan: Plan, batch: Any, on_gpus: bool
) -> Callable[[Pulled, Plan, Any], Learned]:
    """What a worker computes for a push, of what it pulls, plans and samples.

    Args:
        config: the experiment.
        network: the Q-network.
        plan: specs of the plan.
        batch: specs of the minibatches of all local updates.
        on_gpus: whether all learning is done on GPUs.
    """

    def inputs(pulled: Pulled, plan: Plan, batch: Any) -> tuple[Any, ...]:
        return (
            *(pulled.online, pulled.target),
            *(plan.slots, plan.steps, plan.learning_rate, plan.epsilon, plan.seed),
            *(batch, plan.loss_scale, pulled.mask),
        )

    size = network.num_parameters
    pulled = Pulled.specs(size, masking.size(config.pruning, size))
    specs = tf.nest.map_structure(
        lambda spec: tf.TensorSpec(spec.shape, spec.dtype), inputs(pulled, plan, batch)
    )
    learner: Any = make_learner(config, network, on_gpus)
    learn = learner.get_concrete_function(*specs)
    return lambda *given: learn(*inputs(*given))
