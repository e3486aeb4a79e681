"""Transitions that others made: read from a file, checked, and kept as a replay of their own.

Shapes: N steps in the file, in order, of one episode after the other; E rings.
"""

import pathlib
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED, Layout, Rows

FLAG = "--demonstrations"
# Each array under the names that it goes by.
_NAMES = {
    "observations": ("observations",),
    "actions": ("actions",),
    "rewards": ("rewards",),
    "terminated": ("terminated", "terminations", "terminals"),
    "truncated": ("truncated", "truncations", "timeouts"),
    "next_observations": ("next_observations",),
}
_OPTIONAL = ("truncated", "next_observations")
# Rings that episodes are written to side by side.
MOST_RINGS = 64


class Steps(NamedTuple):
    """All steps of a file."""

    observations: np.ndarray  # [N, …]
    actions: np.ndarray  # int32 [N]
    rewards: np.ndarray  # float32 [N]
    ends: np.ndarray  # `CONTINUES`, `TRUNCATED` or `TERMINATED`, uint8 [N]
    next_observations: np.ndarray | None  # [N, …]


class Episode(NamedTuple):
    """Successive steps, and what the last one led to."""

    rows: slice  # of the file
    end: int  # `TRUNCATED` or `TERMINATED`
    last_observation: np.ndarray  # […]


def read(path: pathlib.Path, environment: EnvironmentSpec) -> Steps:
    """Reads a file of transitions.

    Args:
        path: of an .npz file.
        environment: what the observations and actions must be of.

    Raises:
        UsageError: it cannot be read, or is of another environment; in one line.
    """
    where = f"{FLAG}={path}"
    for what, is_so in (
        (f"observations of parts ({environment.describe_observation()})", environment.parts),
        ("masks of actions (--action_masks=off does without)", environment.has_masks),
    ):
        if is_so:
            raise UsageError(f"{where}: the environment has {what}, which files have not")
    arrays = _arrays(path, where)
    number = len(arrays["actions"])
    for name, array in arrays.items():
        if array.shape[:1] != (number,):
            raise UsageError(
                f"{where}: {name} has the shape {array.shape}, and there are {number} actions: one "
                f"row for each step is needed"
            )
    if number < 2:
        raise UsageError(f"{where}: has {number} steps: two or more are needed")
    for name in ("observations", "next_observations"):
        if name in arrays and arrays[name].shape[1:] != environment.observation_shape:
            raise UsageError(
                f"{where}: {name} are of the shape {arrays[name].shape[1:]}, and those of the "
                f"environment are {environment.describe_observation()}: they must be alike"
            )
    _check_values(arrays, environment, where)
    ends = np.where(arrays["terminated"].astype(bool), TERMINATED, CONTINUES).astype(np.uint8)
    if "truncated" in arrays:
        ends[arrays["truncated"].astype(bool) & (ends == CONTINUES)] = TRUNCATED
    following = arrays.get("next_observations")
    dtype = environment.observation_dtype
    steps = Steps(
        arrays["observations"].astype(dtype),
        arrays["actions"].astype(np.int32),
        arrays["rewards"].astype(np.float32),
        ends,
        None if following is None else following.astype(dtype),
    )
    if next(episodes(steps), None) is None:
        raise UsageError(
            f"{where}: has no transition: no step says what it led to, add next_observations"
        )
    return steps


def episodes(steps: Steps) -> Iterator[Episode]:
    """The episodes of a file, in order.

    What a step led to is the next row's observation, unless `next_observations` says it. Where an
    episode was cut off and nothing says it, its last row is no transition: the observation there is
    what the step before led to. The file's end cuts an episode off.
    """
    ends = np.flatnonzero(steps.ends != CONTINUES)
    if not ends.size or ends[-1] != len(steps.ends) - 1:
        ends = np.append(ends, len(steps.ends) - 1)
    first = 0
    for last in ends.tolist():
        begin, first = first, last + 1
        end = TERMINATED if steps.ends[last] == TERMINATED else TRUNCATED
        if steps.next_observations is not None:
            yield Episode(slice(begin, last + 1), end, steps.next_observations[last])
        elif end == TERMINATED:  # nothing is learned of what came after
            yield Episode(slice(begin, last + 1), end, steps.observations[last])
        elif last > begin:
            yield Episode(slice(begin, last), TRUNCATED, steps.observations[last])


def describe(steps: Steps) -> str:
    """What there is, for people."""
    found = list(episodes(steps))
    returns = [float(steps.rewards[each.rows].sum()) for each in found]
    number = sum(each.rows.stop - each.rows.start for each in found)
    return (
        f"{number:,} transitions of {len(found):,} episodes, whose returns are {min(returns):.1f} "
        f"to {max(returns):.1f}, {np.mean(returns):.1f} in the mean"
    )


def rings_of(found: list[Episode]) -> list[list[Episode]]:
    """The episodes shared out among rings, each to the one that is the shortest so far."""
    rings: list[list[Episode]] = [[] for _ in range(min(len(found), MOST_RINGS))]
    lengths = np.zeros(len(rings), np.int64)
    for episode in found:
        ring = int(lengths.argmin())
        rings[ring].append(episode)
        lengths[ring] += episode.rows.stop - episode.rows.start
    return rings


def rows_of(ring: list[Episode], layout: Layout) -> int:
    """Rows that the episodes of a ring take in a replay of this layout."""
    of_steps = sum(episode.rows.stop - episode.rows.start for episode in ring)
    older_frames = layout.frame_stack - 1
    # Each episode begins with them, and a row that follows another that is no transition too.
    return of_steps + len(ring) * (older_frames + 1) + _padding(layout) * (older_frames + 1)


def _padding(layout: Layout) -> int:
    """Rows after the last one of a ring, without which its last transitions could not be drawn."""
    return layout.item.n_step - 1


def fill(replay: Replay, steps: Steps, rings: list[list[Episode]], layout: Layout) -> None:
    """Writes the episodes of each ring, all rings side by side.

    Args:
        replay: an empty one.
        steps: of the file.
        rings: one for each environment of the replay.
        layout: of the replay.

    Raises:
        UsageError: frames are to be stored one by one, and observations are no sliding stacks.
    """
    written = [_rows(each) for each in rings]
    for each in written:
        each += each[-1:] * _padding(layout)
    for i in range(max(len(each) for each in written)):
        envs = np.array([env for env, each in enumerate(written) if i < len(each)])
        at = [written[env][i] for env in envs]
        observations = np.stack(
            [steps.observations[row] if last is None else last for row, _, last in at]
        )
        rows = np.array([row for row, _, _ in at])
        ends = np.array([end for _, end, _ in at], np.uint8)
        is_transition = np.array([last is None for _, _, last in at])
        replay.write(
            Rows(envs, observations, steps.actions[rows], steps.rewards[rows], ends, is_transition)
        )


def _rows(episodes_: list[Episode]) -> list[tuple[int, int, np.ndarray | None]]:
    """For each row of a ring the step it is of, its end, and the last observation if it is that."""
    found: list[tuple[int, int, np.ndarray | None]] = []
    for episode in episodes_:
        last = episode.rows.stop - 1
        found += [(row, CONTINUES, None) for row in range(episode.rows.start, last)]
        found += [(last, episode.end, None), (last, CONTINUES, episode.last_observation)]
    return found


def _arrays(path: pathlib.Path, where: str) -> dict[str, np.ndarray]:
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
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{where}: cannot be read ({error})") from None
    missing = [name for name in _NAMES if name not in found and name not in _OPTIONAL]
    if missing:
        raise UsageError(f"{where}: has no array {missing[0]}, but {has or 'nothing'}: add it")
    return found


def _check_values(arrays: dict[str, np.ndarray], environment: EnvironmentSpec, where: str) -> None:
    actions = arrays["actions"]
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
    for name in ("observations", "next_observations", "rewards"):
        array = arrays.get(name)
        if array is not None and np.issubdtype(array.dtype, np.floating):
            finite = np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            if not finite.all():
                raise UsageError(
                    f"{where}: {name} of step {int(np.argmin(finite))} are not finite: mend or "
                    f"leave out the step"
                )
