"""What workers act with: the network itself in a closure's graph or in NumPy, or a rounded one."""

from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from ps_dqn import networks, seeds
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks import heads
from ps_dqn.networks.network import Parameters, QNetwork
from ps_dqn.policy import numpy_steps
from ps_dqn.worker.calls import Acted, Acting, Caller


class Behaviour(Protocol):
    """What a training closure needs of it."""

    def weights(self, online: tf.Tensor) -> Parameters:
        """What is acted with until the next pull, of the parameters pulled [P]."""

    def step(
        self, caller: Caller, weights: Parameters, acting: Acting, seed: tf.Tensor, specs: Acting
    ) -> Acting:
        """Acts once or several times; what is to be acted on next.

        Args:
            caller: the closure.
            weights: what is acted with.
            acting: what is acted on.
            seed: of noise in this step, int32 [2].
            specs: of what is acted on.
        """


class _InGraph:
    """Computes in the graph of the closure what is done in the worker's Python."""

    def act(self, weights: Parameters, *shown: Any) -> tuple[tf.Tensor, ...]:
        """`QNetwork.act` with these weights, or more of `Acted`."""
        raise NotImplementedError

    def step(
        self, caller: Caller, weights: Parameters, acting: Acting, seed: tf.Tensor, specs: Acting
    ) -> Acting:
        """Acts once."""
        acted = self.act(weights, acting.observations, acting.state, seed, acting.masks)
        stepped: Acting = caller.call("step", Acted(*acted), specs)
        return stepped


class Same(_InGraph):
    """The network that learns."""

    def __init__(self, network: QNetwork):
        self._network = network

    def weights(self, online: tf.Tensor) -> Parameters:
        """The parameters themselves."""
        return online

    def act(self, weights: Parameters, *shown: Any) -> tuple[tf.Tensor, ...]:
        """Its own."""
        return self._network.act(weights, *shown)


class WithValues(Same):
    """The same, which gives the values of all actions too, for first priorities."""

    def act(self, weights: Parameters, *shown: Any) -> tuple[tf.Tensor, ...]:
        """The fields of `Acted`."""
        observations, state, seed, masks = shown
        features = self._network.features(weights, observations, seed)
        values = self._network.q_values(self._network.outputs(weights, features, seed))
        nothing = tf.zeros_like(values[:, :0])  # no policy
        return heads.greedy(values, masks, ()), state, nothing, values


class Quantized(_InGraph):
    """The same network with weights of 8 bits, rounded once for each pull: see `quantized`."""

    def __init__(self, network: QNetwork, rounded: QNetwork):
        """Acts as `network` does, with `rounded`."""
        self._network, self._rounded = network, rounded
        # XLA has products of integers of 8 bits that are quicker than those of float32 on CPUs;
        # TensorFlow's own operation is several times slower.
        self._act = tf.function(rounded.act, jit_compile=True, autograph=False)

    def weights(self, online: tf.Tensor) -> Parameters:
        """Integers and scales where the network has kernels."""
        return self._rounded.quantized(self._network.cut(online))

    def act(self, weights: Parameters, *shown: Any) -> tuple[tf.Tensor, ...]:
        """By products of integers."""
        actions, state, log_probs = self._act(weights, *shown)
        return actions, state, log_probs


class InNumPy:
    """The network that learns, by the worker's Python: several steps for one call."""

    def __init__(self, program: str):
        """Acts as a program of `numpy_policy` says."""
        self._program = program

    def weights(self, online: tf.Tensor) -> Parameters:
        """The parameters themselves."""
        return online

    def step(
        self, caller: Caller, weights: Parameters, acting: Acting, seed: tf.Tensor, specs: Acting
    ) -> Acting:
        """Acts several times, without noise."""
        stepped: Acting = caller.call("steps", [weights, self._program], specs)
        return stepped


def collect(
    behaviour: Behaviour, caller: Caller, weights: Parameters, seed: tf.Tensor, acting: Acting
) -> None:
    """Adds to a closure's graph that environments are stepped as often as the worker says.

    Args:
        behaviour: what is acted with.
        caller: the closure.
        weights: of it.
        seed: of the push, int32 [2].
        acting: what is acted on first.
    """
    specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, acting)

    def step(acting: Acting) -> tuple[Acting]:
        noise_seed = seeds.derive(seed, seeds.Purpose.ACTING + acting.step)
        return (behaviour.step(caller, weights, acting, noise_seed, specs),)

    tf.while_loop(lambda acting: acting.should_act > 0, step, (acting,), parallel_iterations=1)


class Behaviours(NamedTuple):
    """How workers act."""

    collecting: Behaviour
    # By which NumPy plays evaluations, greedily and without noise; empty: TensorFlow plays them.
    program: str


def make(config: Config, environment: EnvironmentSpec, network: QNetwork) -> Behaviours:
    """What the configuration says.

    It is built by operations that run at once, so not where these would wait for every task.
    """
    may = config.parameter_server.acting_backend == "auto" and config.precision.is_full
    program = numpy_steps.program(network) if may else ""
    return Behaviours(_to_collect(config, environment, network, program), program)


def _to_collect(
    config: Config, environment: EnvironmentSpec, network: QNetwork, program: str
) -> Behaviour:
    if config.precision.acting_precision == "int8":
        whose = config.network, config.value, environment, config.run.seed
        return Quantized(network, networks.build(*whose, "int8"))
    # Who learns from its own choices needs chances and their logarithms, as the graph has them.
    if program and not (config.network.noisy or network.has_policy):
        return InNumPy(program)
    return WithValues(network) if config.topology.is_shared else Same(network)
