"""Which updates a run is asked to record."""

import pytest
from support.refusals import refused

from ps_dqn.config import Config


@pytest.mark.parametrize(
    "text", ["100", "100:", ":200", "a:b", "1:2:3", "-1:5", "1.5:2", "10%:20%"]
)
def test_what_is_no_window_is_refused(text: str) -> None:
    assert refused(profile=text) == (
        f"--profile={text}: must be START:STOP, two whole numbers of updates, like 1000:2000"
    )


@pytest.mark.parametrize("text", ["200:100", "200:200"])
def test_a_window_that_stops_before_it_has_begun_is_refused(text: str) -> None:
    assert refused(profile=text) == (
        f"--profile={text}: stops before it has begun; STOP must be more than START"
    )


def test_python_is_not_recorded_alone() -> None:
    assert refused(profile_python=True) == (
        "--profile_python=true: has no effect without --profile; leave it out (its default is "
        "false)"
    )


def test_a_window_is_a_range_of_updates() -> None:
    assert Config.from_values({"profile": "100:200"}).profiling.window == range(100, 200)
    assert Config().profiling.window is None
