"""Transient errors: gone, maybe, where the same command is started again."""

import pathlib

from ps_dqn.cluster import stateful_sets
from ps_dqn.errors import FolderError
from ps_dqn.run import directory


def is_transient(error: BaseException, folder: pathlib.Path, is_remote: bool) -> bool:
    """Whether the Job of a run that ends by an error is to start it again.

    A folder that cannot be read or written now may be so again, and until then the servers of a run
    that has begun have what no checkpoint has.

    Args:
        error: why it cannot go on.
        folder: of the run.
        is_remote: others have started its tasks; a pod may also have a run all to itself.
    """
    is_of_a_job = stateful_sets.is_pod() and is_remote
    return isinstance(error, FolderError) and is_of_a_job and directory.may_have_begun(folder)
