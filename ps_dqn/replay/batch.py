"""What a worker hands to the update loop for one push.

Each field says its dtype and the names of its axes, which both sides read: the worker fills arrays
of these shapes, and the closure that asks for them says so beforehand.

Axes: M minibatches (= local updates) of B items each; T trained rows of a sequence and L rows in
all; T vector steps of E environments in a rollout; S numbers of recurrent state; A truth values of
a mask that says which actions are allowed, 0 without masks; D is 1 with demonstrations, P with a
policy, 0 without.
An `observation` is of the shape and dtype in which the environment's are stored.
"""

import typing
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import numpy as np

from ps_dqn.config import Config, capacity
from ps_dqn.environments import EnvironmentSpec


class Transitions(NamedTuple):
    """n-step transitions: from a state to the state n steps later or where its episode ended."""

    observations: Annotated[np.ndarray, "observation M B"]
    actions: Annotated[np.ndarray, "int32 M B"]
    returns: Annotated[np.ndarray, "float32 M B"]  # Σ γ^k r_k
    discounts: Annotated[np.ndarray, "float32 M B"]  # γ^length, 0 where the episode terminated
    next_observations: Annotated[np.ndarray, "observation M B"]
    masks: Annotated[np.ndarray, "bool M B A"]
    next_masks: Annotated[np.ndarray, "bool M B A"]
    weights: Annotated[np.ndarray, "float32 M B"]  # importance-sampling weights, 1 where none
    demonstrated: Annotated[np.ndarray, "float32 M B D"]  # 1: others acted


class Sequences(NamedTuple):
    """Successive rows, of one or more episodes, some of which are trained on.

    The first rows warm up a recurrent state, the last n only end returns (R2D2, Kapturowski et al.
    2019).
    """

    observations: Annotated[np.ndarray, "observation M B L"]  # L = burn_in + T + n
    starts: Annotated[np.ndarray, "bool M B L"]  # begins an episode, so a state is reset before it
    states: Annotated[np.ndarray, "float32 M B S"]  # the recurrent state before the first row
    masks: Annotated[np.ndarray, "bool M B L A"]
    actions: Annotated[np.ndarray, "int32 M B L"]
    rewards: Annotated[np.ndarray, "float32 M B L"]  # 0 where a row is no transition
    # Of rows burn_in … burn_in + T - 1, which are trained on:
    returns: Annotated[np.ndarray, "float32 M B T"]  # Σ γ^k r_k
    discounts: Annotated[np.ndarray, "float32 M B T"]  # γ^length, 0 where the episode terminated
    bootstraps: Annotated[np.ndarray, "int32 M B T"]  # which of the L rows a return bootstraps from
    weights: Annotated[np.ndarray, "float32 M B T"]  # of importance, 0 where a row is no transition


class Rollout(NamedTuple):
    """T steps of E environments, and the order in which they are learned from.

    Of a recurrent network an environment's steps are one sequence, which is learned from as a
    whole: B is then a multiple of T, and `order` has all steps of one after all of another.
    """

    observations: Annotated[np.ndarray, "observation T E"]
    actions: Annotated[np.ndarray, "int32 T E"]
    rewards: Annotated[np.ndarray, "float32 T E"]
    discounts: Annotated[np.ndarray, "float32 T E"]  # γ, 0 where the episode terminated
    next_observations: Annotated[np.ndarray, "observation T E"]  # of ended episodes, their last
    next_masks: Annotated[np.ndarray, "bool T E A"]
    continues: Annotated[np.ndarray, "float32 T E"]  # 1 where the next step continues the episode
    weights: Annotated[np.ndarray, "float32 T E"]  # 0 where the step was a reset
    starts: Annotated[np.ndarray, "bool T E"]  # a state is reset before it; never of the first
    states: Annotated[np.ndarray, "float32 E S"]  # the recurrent state before the first step
    masks: Annotated[np.ndarray, "bool T E A"]  # of `observations`
    log_probs: Annotated[np.ndarray, "float32 T E P"]  # of the actions, where a policy chose them
    order: Annotated[np.ndarray, "int32 M B"]  # steps as t·E + e; every T·E of them all steps once


Batch = Transitions | Sequences | Rollout


class Spec(NamedTuple):
    """What an array is like."""

    shape: tuple[int, ...]
    dtype: np.dtype


def field_specs(
    kind: type[Batch],
    sizes: Mapping[str, int],
    observation_shape: tuple[int, ...],
    observation_dtype: np.dtype,
) -> dict[str, Spec]:
    """What the fields of a kind of batch are like.

    Args:
        kind: of batch.
        sizes: of the axes, by the names that its fields give them.
        observation_shape: of one observation.
        observation_dtype: as observations are stored.
    """
    specs = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        dtype, *axes = hint.__metadata__[0].split()
        shape = tuple(sizes[axis] for axis in axes)
        if dtype == "observation":
            specs[name] = Spec(shape + observation_shape, np.dtype(observation_dtype))
        else:
            specs[name] = Spec(shape, np.dtype(dtype))
    return specs


def batch_specs(
    config: Config, environment: EnvironmentSpec
) -> tuple[type[Batch], dict[str, Spec]]:
    """The kind of batch that an experiment learns from, and what its fields are like."""
    item = capacity.item(config)
    sizes = {"M": config.parameter_server.local_updates, "B": config.learning.batch_size}
    sizes |= {"A": environment.mask_size, "D": int(bool(config.demonstrations.demonstrations))}
    sizes |= {"S": config.state_size, "P": int(config.value.learns_policy)}
    kind: type[Batch] = Transitions
    if config.replay.replay == "rollout":
        kind = Rollout
        envs = config.environment.envs_per_worker
        sizes |= {"T": config.vector_steps_per_rollout, "E": envs}
    elif item.sequence_length:
        kind = Sequences
        sizes |= {"T": item.sequence_length, "L": item.span}
    shape, dtype = environment.observation_shape, environment.observation_dtype
    return kind, field_specs(kind, sizes, shape, dtype)


def zero_batch(config: Config, environment: EnvironmentSpec) -> Batch:
    """A batch of the configured kind that holds nothing but zeros."""
    kind, specs = batch_specs(config, environment)
    return kind(**{name: np.zeros(*spec) for name, spec in specs.items()})
