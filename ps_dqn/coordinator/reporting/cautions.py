"""What reports say of learning and of workers that people should look at; each is said once."""

from collections.abc import Callable

from ps_dqn.config import Config
from ps_dqn.telemetry.report import Report

# Of so many episodes, more than this share with returns outside of the atoms are no accident.
EPISODES, SHARE = 100, 0.1


class Cautions:
    """Says what it hears of."""

    def __init__(self, config: Config, say: Callable[[str], None]):
        """Has heard of nothing; `say` shows people a line."""
        self._value, self._say = config.value, say
        self._said: set[str] = set()
        self._episodes = self._outside = 0.0

    def hear(self, report: Report) -> None:
        """Takes what a closure's report says."""
        if report.withheld_not_finite:
            self._say_once(
                "not finite",
                f"worker {report.worker:.0f} keeps back pushes that are not finite: look at the "
                f"environment's rewards and at --learning_rate",
            )
        if report.skipped_updates and report.loss_scale <= 1:
            self._say_once(
                "overflows",
                f"worker {report.worker:.0f} skips updates that overflow float16 even with a loss "
                f"scale of 1: say --precision=bfloat16, which has the range of float32",
            )
        if report.failed_writes:
            self._say_once(
                "files",
                f"worker {report.worker:.0f} cannot write its files: training goes on, and its log "
                f"says why",
            )
        self._episodes += report.episodes
        self._outside += report.returns_outside
        if self._episodes < EPISODES:
            return
        if self._outside > SHARE * self._episodes:
            self._say_once(
                "outside",
                f"returns leave the atoms: {self._outside:,.0f} of {self._episodes:,.0f} episodes "
                f"had discounted returns outside of --v_min={self._value.v_min:g} to "
                f"--v_max={self._value.v_max:g} from more than a tenth of their steps, which "
                f"{self._value.value_distribution} cannot tell apart; say wider ones",
            )
        self._episodes = self._outside = 0.0

    def _say_once(self, kind: str, line: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self._say(line)
