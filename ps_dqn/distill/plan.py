"""What is to be distilled into what."""

import dataclasses
import pathlib

from rich.console import Console

from ps_dqn.config import Config
from ps_dqn.config.distillation import Distillation
from ps_dqn.run import terminal
from ps_dqn.run.checkpoints import Checkpoint


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is wanted.

    Attributes:
        folder: the teacher's run.
        teacher: its experiment.
        checkpoint: whose average of parameters is the teacher.
        student: the experiment of the student.
        options: how it learns.
        episodes: that both are judged by.
        evaluation_seed: of these.
        output: folder of the student's run, which is there.
        flagfile: of it.
        console: for people.
    """

    folder: pathlib.Path
    teacher: Config
    checkpoint: Checkpoint
    student: Config
    options: Distillation
    episodes: int
    evaluation_seed: int
    output: pathlib.Path
    flagfile: str
    console: Console

    def say(self, line: str) -> None:
        """A line for people."""
        terminal.say(self.console, line)
