"""What a person sees of a program whose output goes to a log file."""

import pathlib

from support.processes import Processes


def test_a_mistake_of_ours_leaves_its_trace_in_the_log_and_a_line_on_the_terminal(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "program.log"
    program = (
        "import pathlib, sys; from ps_dqn.run import terminal; "
        f"terminal.say(terminal.redirect_to(pathlib.Path({str(log)!r})), 'begun'); "
        "print('chatter'); [][3]"
    )
    broken = processes.start("-c", program)
    assert broken.ended(60) == 1
    assert broken.lines == [
        "begun",
        f"error: stopped by a mistake in the program: IndexError: list index out of range; "
        f"see {log}",
    ]
    text = log.read_text()
    assert "chatter" in text
    assert "Traceback" in text
