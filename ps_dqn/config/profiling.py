"""What a run records of itself, to see where the time goes."""

import dataclasses
import re

from ps_dqn.config.options import option
from ps_dqn.errors import UsageError

_WINDOW = re.compile(r"([0-9]+):([0-9]+)")


@dataclasses.dataclass(frozen=True)
class Profiling:
    """What the run records of itself, to see where the time goes."""

    profile: str = option(
        "",
        "START:STOP: TensorFlow's profiler records the coordinator, every worker and every server, "
        "of parameters or of replay, while the run is between these numbers of updates; "
        'TensorBoard shows what it left (pip install "ps-dqn[profile]"). Empty: nothing is '
        "recorded.",
    )
    profile_python: bool = option(
        False,
        "cProfile records the Python of all of them too, into profile/ of the run directory. It "
        "makes calls of Python slower, so TensorFlow's times are best looked at without.",
        needs={"profile": ()},
    )
    timeline: bool = option(
        False,
        "What each task did from the command to the result: timeline.json (for Perfetto and "
        "chrome://tracing) and timeline.png in the run directory, and a table at the end. Drawing "
        "it takes about a second once all is done.",
    )

    @property
    def window(self) -> range | None:
        """The numbers of updates at which the run is recorded; None: at none."""
        if not self.profile:
            return None
        matched = _WINDOW.fullmatch(self.profile)
        if matched is None:
            raise UsageError(
                f"--profile={self.profile}: must be START:STOP, two whole numbers of updates, "
                f"like 1000:2000"
            )
        window = range(int(matched[1]), int(matched[2]))
        if not window:
            raise UsageError(
                f"--profile={self.profile}: stops before it has begun; STOP must be more than START"
            )
        return window

    def check(self) -> None:
        """Refuses what is no window.

        Raises:
            UsageError: with the flag and what to do.
        """
        _ = self.window
