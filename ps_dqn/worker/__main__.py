"""`python -m ps_dqn.worker`: its place comes from TF_CONFIG or flags."""

from collections.abc import Sequence

from ps_dqn.flags import command_line, task_main, tasks
from ps_dqn.worker.task import JOB, serve


def main(argv: Sequence[str]) -> int:
    """Reads the command line and serves; returns for help only."""
    return task_main.run(argv, JOB, serve, tasks.define_worker)


if __name__ == "__main__":
    command_line.run_main(main)
