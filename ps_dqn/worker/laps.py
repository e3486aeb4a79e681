"""What a worker's phases are on the timeline."""

from ps_dqn.profiling import timeline

# Of the phases of `telemetry.metrics`. Steps of environments and what is acted on them alternate
# many times a second: on the timeline they are one.
NAMES = {
    "acting": "collecting",
    "environment": "collecting",
    "sampling": "sampling",
    "gradient": "learning",
    "pull": "pulling",
    "push": "pushing",
    "adding": "adding to the replay",
    "waiting": "waiting for others",
    "dispatch": "waiting for a closure",
    "evaluation": "evaluating",
}
# The first time of a phase, where it has something of its own in it.
FIRST = {"gradient": "compiling and making the first updates"}
# What has happened once a phase has ended for the first time.
INSTANTS = {"environment": "first env step", "gradient": "first update"}


class Laps:
    """Those of one session of a worker."""

    def __init__(self) -> None:
        """None has ended yet."""
        self._first = dict(FIRST)

    def add(self, phase: str, began: float, ended: float, lane: str = timeline.MAIN) -> None:
        """A phase has ended, one of `metrics.PHASES`; times are `time.perf_counter()`."""
        if not timeline.is_wanted():
            return  # there may be thousands in a second
        name = self._first.pop(phase, NAMES[phase])
        timeline.add(name, began, ended, lane)
        if phase in INSTANTS:
            timeline.instant(INSTANTS[phase], ended)

    def add_beside(self, phase: str, began: float, ended: float) -> None:
        """Likewise of one that others may go on beside."""
        self.add(phase, began, ended, timeline.BESIDE)
