"""`load`: a run's network, to act with."""

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from ps_dqn.api import arguments
from ps_dqn.flags import run_folder
from ps_dqn.run import libraries, terminal

if TYPE_CHECKING:
    from ps_dqn.policy import Policy


def load(
    run_dir: str | os.PathLike[str], checkpoint: str = "best", trust_run_dir: bool = False
) -> "Policy":
    """The greedy policy that a run has learned, in this process and without a cluster.

    It needs neither the environment nor its packages.

    Args:
        run_dir: the run's folder; it may still be training.
        checkpoint: "best" or "newest".
        trust_run_dir: import a network of one's own that the run names although the folder is
            another user's.

    Raises:
        UsageError: there is no run, or no such checkpoint; or Keras is not TensorFlow's here.
    """
    folder = arguments.path(run_dir)
    config, found = run_folder.read(folder, checkpoint, trust_run_dir)
    is_first = "tensorflow" not in sys.modules
    # It says on import, and as it begins, what it was built with and which GPUs it lacks.
    quiet = terminal.silent() if is_first else contextlib.nullcontext()
    with quiet, libraries.settled():
        from ps_dqn.policy import loading

        return loading.of_checkpoint(config, folder, found)
