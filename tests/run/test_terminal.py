"""What a person sees of a program whose output goes to a log file."""

import pathlib

from support.processes import Processes, Running


def broken(processes: Processes, log: pathlib.Path, **environment: str) -> Running:
    """A program that says a line, prints another and breaks; it has ended."""
    program = (
        "import pathlib, sys; from ps_dqn.run import terminal; "
        f"terminal.say(terminal.redirect_to(pathlib.Path({str(log)!r})), 'begun'); "
        "print('chatter'); [][3]"
    )
    running = processes.start("-c", program, **environment)
    assert running.ended() == 1
    return running


def said_of(log: pathlib.Path) -> list[str]:
    """What it says where this is its log, which is checked."""
    text = log.read_text()
    assert "chatter" in text
    assert "Traceback" in text
    mistake = "stopped by a mistake in the program: IndexError: list index out of range"
    return ["begun", f"error: {mistake}; see {log}"]


def test_a_mistake_of_ours_leaves_its_trace_in_the_log_and_a_line_on_the_terminal(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "logs" / "program.log"  # whose folder is made
    running = broken(processes, log)
    assert running.lines == said_of(log)


def test_letters_that_the_terminal_lacks_are_replaced(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    program = (
        "import pathlib; from ps_dqn.run import terminal; "
        f"console = terminal.redirect_to(pathlib.Path({str(tmp_path / 'log')!r})); "
        r"terminal.say(console, 'steps \u2264 \udcff'); raise ValueError('\xd7')"
    )
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    running = processes.start("-c", program, **ascii_alone)
    assert running.ended() == 1
    mistake = "stopped by a mistake in the program: ValueError: ?"
    assert running.lines == ["steps ? ?", f"error: {mistake}; see {tmp_path / 'log'}"]


def test_a_log_that_cannot_be_written_is_a_temporary_file(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    # Even root cannot write below a regular file.
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    log = tmp_path / "file" / "program.log"
    running = broken(processes, log, TMPDIR=str(tmp_path / "temporary"))
    [written] = (tmp_path / "temporary").iterdir()
    assert running.lines == said_of(written)
    assert (written.name.startswith("program-"), written.suffix) == (True, ".log")
