"""`python -m ps_dqn.worker`: its place comes from TF_CONFIG or flags."""

import sys

from ps_dqn.flags import task_main, tasks
from ps_dqn.worker.task import JOB, serve

if __name__ == "__main__":
    sys.exit(task_main.run(JOB, serve, tasks.define_worker_dir))
