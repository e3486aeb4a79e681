"""`python -m ps_dqn.actor`: its place comes from TF_CONFIG or flags."""

from collections.abc import Sequence

from ps_dqn.actor.task import JOB, serve
from ps_dqn.flags import command_line, task_main, tasks


def main(argv: Sequence[str]) -> int:
    """Reads the command line and serves; returns for help only."""
    return task_main.run(argv, JOB, serve, tasks.define_worker_dir, has_tensorflow=False)


if __name__ == "__main__":
    command_line.run_main(main)
