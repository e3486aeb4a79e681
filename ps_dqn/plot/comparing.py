"""Comparing runs: for `python -m ps_dqn.plot`, and for whoever has made several."""

import difflib
import pathlib
from collections.abc import Sequence

from ps_dqn import user_code
from ps_dqn.errors import UsageError
from ps_dqn.plot import groups as grouping
from ps_dqn.plot import picture, scores
from ps_dqn.plot.groups import Group
from ps_dqn.plot.scores import Score
from ps_dqn.telemetry import measured

METRIC = "eval/episode_return"


def groups(folders: Sequence[pathlib.Path], metric: str) -> list[Group]:
    """The groups of the runs that have measured a metric.

    Raises:
        UsageError: none has.
    """
    runs = [measured.read(folder) for folder in folders]
    found = [group.having(metric) for group in grouping.of(runs)]
    found = [group for group in found if group.runs]
    if not found:
        names = {name for run in runs for row in run.rows for name in row}
        known = sorted(name for name in names if any(run.values(name) for run in runs))
        close = difflib.get_close_matches(metric, known, 3, 0.4) or known
        have = f"they have {', '.join(close)}" if known else "none has measured anything yet"
        raise UsageError(f"--metric={metric}: no run has measured it; {have}")
    return found


def table(found: Sequence[Group], metric: str) -> list[Score]:
    """The scores of groups, the best of each environment first, and those over environments."""
    environments = list(dict.fromkeys(group.env_id for group in found))
    each = [scores.score(group, metric) for group in found]
    each.sort(key=lambda score: (environments.index(score.env_id), -score.at_end))
    over = scores.over_environments(found, metric)
    return [*each, *sorted(over, key=lambda score: -score.at_end)]


def draw(found: Sequence[Group], axes: Sequence[str], metric: str, path: pathlib.Path) -> None:
    """Draws groups.

    Raises:
        UsageError: the picture cannot be drawn or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.draw(found, axes, metric, path)
    except OSError as error:
        raise UsageError(f"--output={path}: cannot be written ({error.strerror})") from None
    except Exception as error:  # of Matplotlib, which a user's settings may break
        raise UsageError(
            f"--output={path}: cannot be drawn ({user_code.one_line(error)})"
        ) from None
