"""Programs that train and are interrupted or killed: the run ends in good order."""

import os
import pathlib
import signal
import sys

import pytest
from support.processes import Processes, Running

from ps_dqn import Run
from ps_dqn.run import directory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# As people write them: without `if __name__ == "__main__"`.
PROGRAM = """
import sys
from ps_dqn import Run, train
try:
    train("CartPole-v1", run_dir=sys.argv[1], num_workers=1, hidden_sizes=(16, 16),
          jit_compile="none", total_env_steps=10**8, target_return=float("inf"), log_interval=0.5)
except KeyboardInterrupt:
    print("interrupted:", Run(sys.argv[1]).outcome)
    raise
"""


@pytest.fixture
def program(processes: Processes, tmp_path: pathlib.Path) -> Running:
    """One that trains, into the folder run."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    running = processes.start(str(path), str(tmp_path / "run"))
    running.trains()
    # The program, the coordinator, a parameter server and a worker.
    assert len(processes.alive()) == 4
    return running


def test_ctrl_c_ends_the_run_and_comes_out(
    program: Running, processes: Processes, tmp_path: pathlib.Path
) -> None:
    os.kill(program.pid, signal.SIGINT)

    assert program.ended() == -signal.SIGINT, program.text
    assert "interrupted: stopped" in program.lines
    assert program.lines[-1] == "KeyboardInterrupt"
    assert directory.has_checkpoint(tmp_path / "run")
    processes.all_gone(60)


@pytest.mark.slow
def test_a_run_ends_in_good_order_when_its_program_is_killed(
    program: Running, processes: Processes, tmp_path: pathlib.Path
) -> None:
    os.kill(program.pid, signal.SIGKILL)

    processes.all_gone(60)
    assert Run(tmp_path / "run").outcome == "stopped"
    assert directory.has_checkpoint(tmp_path / "run")
