"""Reads transitions that others made: from a file of arrays, or a data set of Minari's.

Shapes: N steps, in order, of one episode after the other; A actions.
"""

import math
import pathlib

import numpy as np

from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import minari_sets
from ps_dqn.replay.demonstrations import Steps, episodes
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED
from ps_dqn.run import disk, paths

# Each array under the names that it goes by.
_NAMES = {
    "observations": ("observations",),
    "actions": ("actions",),
    "rewards": ("rewards",),
    "terminated": ("terminated", "terminations", "terminals"),
    "truncated": ("truncated", "truncations", "timeouts"),
    "next_observations": ("next_observations",),
    "action_masks": ("action_masks",),
    "next_action_masks": ("next_action_masks",),
}
_OPTIONAL = ("truncated", "next_observations", "action_masks", "next_action_masks")
MINARI = "minari:"


def read(source: str, environment: EnvironmentSpec, bins: int = 0) -> Steps:
    """Reads all transitions of a source.

    Args:
        source: path of an .npz file, or `minari:` and the name of a data set of this machine.
        environment: what the observations and actions must be of.
        bins: `--action_bins`, by which actions of data sets are found in the list of actions.

    Raises:
        UsageError: it cannot be read, or is of another environment; in one line.
    """
    where, moved = f"--demonstrations={source}", None
    if source.startswith(MINARI):
        name = source.removeprefix(MINARI)
        arrays, moved = minari_sets.read(name, environment, bins, where)
    else:
        arrays = _of_file(paths.named("--demonstrations", source), where)
    _check_kinds(arrays, where)
    number = len(arrays["actions"])
    for name, array in arrays.items():
        if array.shape[:1] != (number,):
            raise UsageError(
                f"{where}: {name} has the shape {array.shape}, and there are {number} actions: one "
                f"row for each step is needed"
            )
    if not number:
        raise UsageError(f"{where}: has no steps")
    _check_actions(arrays["actions"], environment, where)
    has_masks = environment.has_masks
    if has_masks and "action_masks" not in arrays:
        raise UsageError(
            f"{where}: has no array action_masks, and the environment says which actions it "
            f"allows: add it, or say --action_masks=off"
        )
    ends = np.where(arrays["terminated"].astype(bool), TERMINATED, CONTINUES).astype(np.uint8)
    if "truncated" in arrays:
        ends[arrays["truncated"].astype(bool) & (ends == CONTINUES)] = TRUNCATED
    shown = _observations("observations", arrays, environment, where)
    following = None
    if "next_observations" in arrays:  # where they are not the next row's, an episode was cut off
        following = _observations("next_observations", arrays, environment, where)
        differ = following[:-1] != shown[1:]
        is_cut = differ.reshape(number - 1, math.prod(differ.shape[1:])).any(axis=1)
        ends[:-1][is_cut & (ends[:-1] == CONTINUES)] = TRUNCATED
    follows = following is not None and (not has_masks or "next_action_masks" in arrays)
    steps = Steps(
        shown,
        arrays["actions"].astype(np.int32, copy=False),
        _finite("rewards", arrays["rewards"].astype(np.float32, copy=False), where),
        ends,
        following if follows else None,
        _masks("action_masks", arrays, environment, where) if has_masks else None,
        _masks("next_action_masks", arrays, environment, where) if has_masks and follows else None,
        moved,
    )
    if steps.masks is not None:
        allowed = steps.masks[np.arange(number), steps.actions]
        if not allowed.all():
            raise UsageError(
                f"{where}: the action of step {int(np.argmin(allowed))} is one that its "
                f"action_masks do not allow"
            )
    if next(episodes(steps), None) is None:
        raise UsageError(
            f"{where}: has no transition: no step says what it led to, add next_observations"
        )
    return steps


def _of_file(path: pathlib.Path, where: str) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file:  # NumPy leaves one that is no archive open
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise UsageError(f"{where}: is one array alone: save all with numpy.savez")
            found = {
                name: archive[known]
                for name, names in _NAMES.items()
                for known in names
                if known in archive.files
            }
            has = ", ".join(archive.files)
    except (MemoryError, *disk.DAMAGE) as error:
        raise UsageError(f"{where}: cannot be read ({error})") from None
    missing = [name for name in _NAMES if name not in found and name not in _OPTIONAL]
    if missing:
        raise UsageError(f"{where}: has no array {missing[0]}, but {has or 'nothing'}: add it")
    return found


def _check_kinds(arrays: dict[str, np.ndarray], where: str) -> None:
    """Refuses arrays of which nothing can be made, whatever the environment is."""
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            what = getattr(array, "dtype", type(array).__name__)
            raise UsageError(f"{where}: {name} is {what}: numbers are needed")
        is_row = name in ("rewards", "terminated", "truncated")
        if array.ndim == 0 or (is_row and array.ndim != 1):
            raise UsageError(
                f"{where}: {name} has the shape {array.shape}: one number for each step is needed"
            )
        if name in ("terminated", "truncated") and not ((array == 0) | (array == 1)).all():
            wrong = int(np.argmin((array == 0) | (array == 1)))
            raise UsageError(f"{where}: {name} of step {wrong} is {array[wrong]}: 0 or 1 is needed")


def _check_actions(actions: np.ndarray, environment: EnvironmentSpec, where: str) -> None:
    if actions.ndim != 1 or not np.issubdtype(actions.dtype, np.integer):
        raise UsageError(
            f"{where}: actions are {actions.dtype} of the shape {actions.shape}: numbers of "
            f"actions, counted from 0, are needed"
        )
    outside = np.flatnonzero((actions < 0) | (actions >= environment.num_actions))
    if outside.size:
        raise UsageError(
            f"{where}: step {outside[0]} has the action {actions[outside[0]]}, and the environment "
            f"has {environment.num_actions}, counted from 0"
        )


def _observations(
    name: str, arrays: dict[str, np.ndarray], environment: EnvironmentSpec, where: str
) -> np.ndarray:
    array, dtype = arrays[name], environment.observation_dtype
    if array.shape[1:] != environment.observation_shape:
        raise UsageError(
            f"{where}: {name} are of the shape {array.shape[1:]}, and those of the environment are "
            f"{environment.describe_observation()}, kept as {environment.observation_shape}: they "
            f"must be alike"
        )
    kept = array.astype(dtype, copy=False)
    if np.dtype(dtype).kind != "f" and not (kept == array).all():
        raise UsageError(
            f"{where}: {name} are {array.dtype}, and those of the environment are {dtype}: save "
            f"them as that"
        )
    return _finite(name, kept, where)


def _finite(name: str, array: np.ndarray, where: str) -> np.ndarray:
    if np.issubdtype(array.dtype, np.floating):
        is_finite = np.isfinite(array.reshape(len(array), math.prod(array.shape[1:]))).all(axis=1)
        if not is_finite.all():
            raise UsageError(
                f"{where}: {name} of step {int(np.argmin(is_finite))} are not finite: mend or "
                f"leave out the step"
            )
    return array


def _masks(
    name: str, arrays: dict[str, np.ndarray], environment: EnvironmentSpec, where: str
) -> np.ndarray:
    masks = arrays[name].astype(bool)
    if masks.shape[1:] != (environment.num_actions,):
        raise UsageError(
            f"{where}: {name} are of the shape {masks.shape[1:]}, and there are "
            f"{environment.num_actions} actions: one truth value for each is needed"
        )
    return masks | ~masks.any(axis=1, keepdims=True)  # as of environments: none allowed is all
