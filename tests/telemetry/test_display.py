"""The lines of a run whose output is not a terminal."""

import io
import math

from rich.console import Console

from ps_dqn.state import Counters
from ps_dqn.telemetry.display import PlainDisplay, Status


def line_of(**values) -> str:
    shown = {
        "seconds": 2.0,
        "counters": Counters(3, 192, 1536, 20),
        "total_env_steps": 10_000,
        "episode_return": 21.5,
        "eval_return": 30.25,
        "best_return": 30.25,
        "target_return": 475.0,
        "epsilon": 0.25,
        "staleness": 1.25,
        "env_steps_per_second": 1000.0,
        "updates_per_second": 125.0,
        "workers_alive": 2,
        "num_workers": 2,
    }
    output = io.StringIO()
    PlainDisplay(Console(file=output, width=300), interval=0.0).show(Status(**shown | values))
    return output.getvalue()


def test_a_line_has_what_is_known() -> None:
    line = line_of()
    for words in ("env_steps      1,536", "return 21.5", "staleness 1.2", "workers 2/2"):
        assert words in line


def test_what_is_not_known_is_a_dash() -> None:
    # While everyone waits for a worker that is gone, no push is decided.
    line = line_of(staleness=math.nan, eval_return=math.nan)
    assert "staleness -" in line
    assert "eval -" in line
    assert "nan" not in line
