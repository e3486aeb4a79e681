"""Which checkpoints of a run that goes on are to be played."""

import pathlib
import time
from collections.abc import Callable, Iterator

from ps_dqn.errors import FolderError
from ps_dqn.evaluator.score_table import ScoreTable
from ps_dqn.run import directory
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints

# From one look for a new checkpoint to the next (seconds).
PERIOD = 1.0
# Where none has come for so long, or for twice the time from one to the next, people hear of it,
# and as often after that (seconds).
PATIENCE = 300.0


def new_checkpoints(
    folder: pathlib.Path,
    checkpoints: Checkpoints,
    table: ScoreTable,
    period: float,
    say: Callable[[str], None],
) -> Iterator[Checkpoint]:
    """The newest checkpoint, whenever it is one that was not played yet, until the run has ended.

    Args:
        folder: of the run.
        checkpoints: of the run.
        table: of the run; what it has was played.
        period: from one checkpoint to the next (seconds).
        say: shows people a line.
    """
    played, whose = table.played(), directory.identity(folder)
    heard = told = time.monotonic()
    told_error = ""
    while True:
        if whose != (whose := directory.identity(folder)):
            played = -1  # another run has begun in its place
            table.begin_anew()
        has_ended = directory.has_ended(folder)  # looked up first: the last one is there by then
        try:
            checkpoint = checkpoints.newest()
        except FolderError as error:  # it was the oldest that is kept, or the disk is away
            checkpoint, has_ended = None, False
            if told_error != (told_error := str(error)):
                say(f"{error}: it is tried again")
        if checkpoint is not None and checkpoint.state.counters.updates > played:
            played = checkpoint.state.counters.updates
            yield checkpoint
            heard = told = time.monotonic()
        elif has_ended:
            return
        else:
            now = time.monotonic()
            if now - told >= max(PATIENCE, 2 * period):
                told = now
                say(
                    f"no new checkpoint for {(now - heard) / 60:.0f} min, and the run has not "
                    f"ended: it waits for something, or its coordinator has failed; see "
                    f"{folder / directory.LOGS / 'coordinator.log'}"
                )
            time.sleep(PERIOD)
