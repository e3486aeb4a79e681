"""What an exported network is tried on: observations that the run's network met as it played.

Shapes: B observations, S numbers of recurrent state, A actions.
"""

import contextlib
import dataclasses
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.environments import alike, raw
from ps_dqn.environments.interface import Interface
from ps_dqn.errors import UsageError
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy import greedy
from ps_dqn.run import disk
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Evaluation

Arrays = dict[str, np.ndarray]
EPISODES = 8  # side by side
# Actions at random, so that episodes that begin alike do not stay so.
EPSILON = 0.1
FLAG = "--observations"


class Met(NamedTuple):
    """What a run's network is given."""

    rows: np.ndarray  # observations as they are kept, [B, …]
    states: np.ndarray  # recurrent ones, float32 [B, S]
    masks: np.ndarray  # bool [B, A], or [B, 0] where there are none


def play(
    config: Config, interface: Interface, network: QNetwork, parameters: np.ndarray, count: int
) -> Met:
    """Plays in the run's environment until so many observations were met.

    Raises:
        UsageError: the environment cannot be made, or the run's network does not fit it.
    """
    run = dataclasses.replace(config.run, eval_epsilon=EPSILON)
    evaluation = Evaluation(
        dataclasses.replace(config, run=run), EPISODES, goes_on=True, is_alone=True
    )
    act = tf.function(network.act, autograph=False)
    found: list[Met] = []
    options, seed = config.environment.in_evaluations, 0
    with contextlib.closing(evaluation.environments) as acted_in:
        playing = evaluation.begin(seed)
        alike.check_again(options, acted_in.spec, interface.spec)
        while len(found) * EPISODES < count:
            if not playing.episodes:
                seed += 1
                playing = evaluation.begin(seed)
            met = Met(*(np.array(each) for each in playing[:3]))
            found.append(met)
            acted = act(tf.constant(parameters), *map(tf.constant, met[:2]), masks=met.masks)
            playing = evaluation.step(Acted(*(each.numpy() for each in acted)))
    rows, states, masks = (np.concatenate(each)[:count] for each in zip(*found, strict=True))
    return Met(rows, states, masks)


def read(path: pathlib.Path, interface: Interface) -> Met:
    """What `save` wrote, of this export or another of the same environment.

    Raises:
        UsageError: it cannot be read, or is of another environment.
    """
    flag = f"{FLAG}={path}"
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
    except disk.DAMAGE as error:
        raise UsageError(f"{flag}: cannot be read ({error})") from None
    wanted = [each.name for each in raw.inputs(interface)]
    wanted += [greedy.MASK] if interface.spec.has_masks else []
    wanted += [greedy.STATE, greedy.REWARD] if interface.recurrent_size else []
    if missing := sorted(set(wanted) - arrays.keys()):
        raise UsageError(f"{flag}: has no array {', '.join(missing)}, as the network here reads")
    counts = [len(each) if (each := arrays[name]).ndim else -1 for name in wanted]
    count = counts[0]
    if count < 0 or counts.count(count) < len(counts):
        raise UsageError(f"{flag}: its arrays have not one row for each observation")
    states, masks = np.zeros((count, 0), np.float32), np.ones((count, 0), np.bool_)
    try:
        rows = raw.rows_of(interface, arrays)
        if interface.recurrent_size:
            states = np.concatenate(
                [arrays[greedy.STATE], arrays[greedy.REWARD][:, None]], axis=1, dtype=np.float32
            )
        if interface.spec.has_masks:
            masks = arrays[greedy.MASK].astype(np.bool_).reshape(count, interface.spec.mask_size)
    except ValueError as error:
        raise UsageError(f"{flag}: is of another environment ({error})") from None
    if rows.shape[1:] != interface.spec.observation_shape or not count:
        raise UsageError(f"{flag}: has {count} observations of the shape {rows.shape[1:]}")
    return Met(rows, states, masks)


def save(path: pathlib.Path, inputs: Arrays, outputs: Arrays) -> None:
    """Writes inputs and what the run's network answers, by their names."""
    with path.open("wb") as file:
        np.savez_compressed(file, **inputs, **outputs)  # type: ignore[arg-type]
