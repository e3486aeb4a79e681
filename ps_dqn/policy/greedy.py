"""The greedy network: from what an environment returns to the action that it is given.

Shapes: B observations, k frames, A actions, C values (A, or choices of branches), S numbers.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from gymnasium import spaces
from keras import ops

from ps_dqn.environments import raw
from ps_dqn.environments.interface import Interface
from ps_dqn.networks import inputs as network_inputs
from ps_dqn.networks.heads import NOT_ALLOWED
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy.plain import plain

NAME = "greedy_network"
# Names of inputs and outputs; those of observations are in `raw`.
MASK, STATE, REWARD = "mask", "state", "reward"
ACTION, NEXT_STATE = "action", "next_state"
# What an action was chosen by, the one or the other.
Q_VALUES, LOGITS = "q_values", "logits"


def greedy_network(network: QNetwork, interface: Interface) -> keras.Model:
    """A Keras model of Keras's own layers, in the weights that the network now has.

    Its inputs and outputs are dictionaries:

    - `observation`, or `observation_PART` for each: as the environment returns it, [B, …] or
      [B, k, …] where frames are stacked;
    - `mask`, where the environment has masks: which actions are allowed, bool [B, A];
    - `state` and `reward`, where the network is recurrent: the `next_state` of the call
      before, zeros where an episode begins, float32 [B, S], and what its action paid, float32 [B];
    - `action`: as the environment takes it; `q_values`, or a policy's `logits`, float32 [B, C]; and
      `next_state`.

    Args:
        network: whose parameters were assigned.
        interface: of the run.
    """
    frames, spec = interface.frames, interface.spec
    wanted = raw.inputs(interface)
    inputs = {
        each.name: keras.Input((*frames, *each.shape), dtype=each.dtype.name, name=each.name)
        for each in wanted
    }
    given = {each.part.name if each.part else "": _given(each, inputs, frames) for each in wanted}
    observations: Any = network_inputs.bare(given)
    outputs = {}
    if network.state_size:
        inputs[STATE] = keras.Input((state_size(interface),), name=STATE)
        inputs[REWARD] = keras.Input((), name=REWARD)
        reward, clip = inputs[REWARD], interface.reward_clip
        heard = ops.clip(reward, -clip, clip) if clip else reward
        state = ops.concatenate([inputs[STATE], ops.expand_dims(heard, -1)], axis=-1)
        q_values, after = plain(network.as_keras())([observations, state])
    else:
        q_values = plain(network.as_keras())(observations)
    allowed = q_values
    if spec.has_masks:
        mask = inputs[MASK] = keras.Input((spec.num_actions,), dtype="bool", name=MASK)
        nothing = ops.logical_not(ops.any(mask, axis=-1, keepdims=True))  # then all is allowed
        allowed = ops.where(ops.logical_or(mask, nothing), q_values, NOT_ALLOWED)
    places = [_best(each) for each in _parts(allowed, spec.branches)]
    outputs[ACTION] = _own(places, interface)
    outputs[values_of(network)] = q_values
    if network.state_size:
        done = ops.expand_dims(ops.cast(places[0] + 1, "float32"), -1)
        outputs[NEXT_STATE] = ops.concatenate([after[:, :-2], done], axis=-1)
    return keras.Model(inputs, outputs, name=NAME)


def values_of(network: QNetwork) -> str:
    """The output that a network's actions are chosen by: `Q_VALUES` or `LOGITS`."""
    return LOGITS if network.has_policy else Q_VALUES


def chosen_by(outputs: Mapping[str, Any]) -> str:
    """The same, of what it has answered."""
    return LOGITS if LOGITS in outputs else Q_VALUES


def state_size(interface: Interface) -> int:
    """S: an LSTM's output and memory, and the last action; 0 without one."""
    return 2 * interface.recurrent_size + 1 if interface.recurrent_size else 0


def inputs_of(
    interface: Interface, rows: np.ndarray, states: np.ndarray, masks: np.ndarray
) -> dict[str, np.ndarray]:
    """Its inputs, of what the network of a run is given.

    Args:
        interface: of the run.
        rows: observations as they are kept, [B, …].
        states: recurrent ones with the last action and its reward, float32 [B, S + 1] or [B, 0].
        masks: bool [B, A] or [B, 0].
    """
    found = raw.of_rows(interface, rows)
    if interface.spec.has_masks:
        found[MASK] = masks
    if interface.recurrent_size:
        found |= {STATE: states[:, :-1], REWARD: states[:, -1]}
    return found


def _given(each: raw.Input, inputs: dict[str, Any], frames: tuple[int, ...]) -> Any:
    """An input as the network is given it: numbers of things are counted from 0, in one row."""
    x = inputs[each.name]
    if each.part is None:
        return x
    if each.shape != each.part.shape:
        x = ops.reshape(x, (-1, *frames, *each.part.shape))
    if any(each.starts):
        starts = np.array(each.starts, each.dtype)
        x = x - (starts if each.part.shape else starts[0])
    return x


def _parts(values: Any, branches: tuple[int, ...]) -> list[Any]:
    ends = list(itertools.accumulate(branches))
    pairs = zip(ends, branches, strict=True)
    return [values[:, end - count : end] for end, count in pairs] if branches else [values]


def _best(values: Any) -> Any:
    """The first of the largest, int32 [B]: argmax, by an operation that all formats know."""
    return ops.top_k(values, 1)[1][:, 0]


def _own(places: list[Any], interface: Interface) -> Any:
    """The environment's own actions [B, *shape], of the places in its list or in each part's."""
    actions, spec = interface.actions, interface.spec
    if isinstance(interface.own.action, spaces.Discrete):
        return ops.cast(places[0], "int64") + int(actions.values[0][0])
    if not spec.branches:
        table = actions.of(np.arange(spec.num_actions))  # [A, *shape]
        return ops.take(table, places[0], axis=0)
    chosen = [
        ops.take(values.astype(actions.dtype), place, axis=0)
        for values, place in zip(actions.values, places, strict=True)
    ]
    return ops.reshape(ops.stack(chosen, axis=-1), (-1, *actions.shape))
