"""`python -m ps_dqn.parameter_server`: its place comes from TF_CONFIG or flags."""

import sys

from ps_dqn.flags import task_main
from ps_dqn.parameter_server.task import JOB, serve

if __name__ == "__main__":
    sys.exit(task_main.run(JOB, serve))
