"""Transitions that others made, kept as a replay of their own.

Shapes: N steps, in order, of one episode after the other; E rings.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ps_dqn.errors import UsageError
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED, Layout, Rows

# Rings that episodes are written to side by side.
MOST_RINGS = 64
# Actions that are moved by less, as a share of a number's range, are but rounded.
EXACT = 1e-5


class Steps(NamedTuple):
    """All steps there are."""

    observations: np.ndarray  # [N, …]
    actions: np.ndarray  # int32 [N]
    rewards: np.ndarray  # float32 [N]
    ends: np.ndarray  # `CONTINUES`, `TRUNCATED` or `TERMINATED`, uint8 [N]
    next_observations: np.ndarray | None  # [N, …]
    masks: np.ndarray | None = None  # of the actions, bool [N, A]; None: all are allowed
    next_masks: np.ndarray | None = None  # likewise
    # How far the numbers of each action are from those of the list that it is taken for, the
    # farthest of them, as a share of what that number may range over, float [N]; None: they are it.
    moved: np.ndarray | None = None


class Episode(NamedTuple):
    """Successive steps, and what the last one led to."""

    rows: slice  # of the file
    end: int  # `TRUNCATED` or `TERMINATED`
    last_observation: np.ndarray  # […]
    last_mask: np.ndarray | None = None  # bool [A]


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
            mask = None if steps.next_masks is None else steps.next_masks[last]
            yield Episode(slice(begin, last + 1), end, steps.next_observations[last], mask)
            continue
        mask = None if steps.masks is None else steps.masks[last]
        if end == TERMINATED:  # nothing is learned of what came after
            yield Episode(slice(begin, last + 1), end, steps.observations[last], mask)
        elif last > begin:
            yield Episode(slice(begin, last), TRUNCATED, steps.observations[last], mask)


def describe(steps: Steps) -> str:
    """What there is, for people."""
    found = list(episodes(steps))
    returns = [float(steps.rewards[each.rows].sum()) for each in found]
    number = sum(each.rows.stop - each.rows.start for each in found)
    return (
        f"{number:,} transitions of {len(found):,} episodes, whose returns are {min(returns):.1f} "
        f"to {max(returns):.1f}, {np.mean(returns):.1f} in the mean"
    )


def describe_moved(steps: Steps, bins: int) -> list[str]:
    """How far actions were moved to those of `--action_bins`, for people; none where they were not.

    Args:
        steps: all there are.
        bins: `--action_bins`.
    """
    if steps.moved is None or steps.moved.max() < EXACT:
        return []
    return [
        f"demonstrations: actions are taken for the nearest of --action_bins={bins}, which moves "
        f"their numbers by {steps.moved.mean():.1%} of their ranges in the mean and "
        f"{steps.moved.max():.1%} at most"
    ]


def rings_of(found: list[Episode]) -> list[list[Episode]]:
    """The episodes shared out among rings, each to the one that is the shortest so far.

    All rings have room for the longest, so there are no more than the longest episode fits into
    all of them together.
    """
    lengths_of = [episode.rows.stop - episode.rows.start for episode in found]
    most = min(MOST_RINGS, max(sum(lengths_of) // max(lengths_of), 1))
    rings: list[list[Episode]] = [[] for _ in range(most)]
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
        rows = np.array([each.step for each in at])
        observations, masks = steps.observations[rows], None
        if steps.masks is not None:
            masks = steps.masks[rows]
        for row, (_, _, episode) in enumerate(at):
            if episode is not None:
                observations[row] = _last(episode, steps, layout)
                if masks is not None:
                    masks[row] = episode.last_mask
        replay.write(
            Rows(
                envs,
                observations,
                steps.actions[rows],
                steps.rewards[rows],
                np.array([each.end for each in at], np.uint8),
                np.array([each.is_last_of is None for each in at]),
                masks=masks,
            )
        )


def _last(episode: Episode, steps: Steps, layout: Layout) -> np.ndarray:
    """What an episode led to; a sliding stack moves on, also where nobody says what came."""
    is_unknown = steps.next_observations is None and episode.end == TERMINATED
    last = episode.last_observation
    if layout.frame_stack > 1 and is_unknown:
        return np.concatenate([last[1:], last[-1:]])
    return last


def check_stacks(steps: Steps, frames: int) -> None:
    """Refuses observations that are no sliding stacks of so many frames, above 1.

    Raises:
        UsageError: with the step.
    """
    shown, following = steps.observations, steps.next_observations
    goes_on = steps.ends[:-1] == CONTINUES
    axes = tuple(range(1, shown.ndim))
    slides = (shown[1:, :-1] == shown[:-1, 1:]).all(axis=axes) | ~goes_on
    if following is not None:
        moved = (following[:, :-1] == shown[:, 1:]).all(axis=axes)
        slides = np.append(slides, True) & moved
    if not slides.all():
        raise UsageError(
            f"--frame_stack={frames}: what step {int(np.argmin(slides))} of the demonstrations led "
            f"to is not what it observed moved by one frame: leave --frame_stack out, then "
            f"observations are stored whole"
        )


class _Row(NamedTuple):
    """What a row of a ring is made of."""

    step: int
    end: int  # `CONTINUES`, `TRUNCATED` or `TERMINATED`
    is_last_of: Episode | None  # whose last observation it is; None: it is a transition


def _rows(ring: list[Episode]) -> list[_Row]:
    found: list[_Row] = []
    for episode in ring:
        last = episode.rows.stop - 1
        found += [_Row(step, CONTINUES, None) for step in range(episode.rows.start, last)]
        found += [_Row(last, episode.end, None), _Row(last, CONTINUES, episode)]
    return found
