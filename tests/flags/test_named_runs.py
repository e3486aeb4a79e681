"""Programs about one run take its folder as their first word."""

import importlib

import pytest
from support.command_lines import only_error

PROGRAMS = {
    "evaluate": "ps_dqn.evaluator.__main__",
    "watch": "ps_dqn.watch",
    "export": "ps_dqn.export.__main__",
    "distill": "ps_dqn.distill.__main__",
}


@pytest.mark.parametrize("word", PROGRAMS)
def test_the_folder_is_the_first_word(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = importlib.import_module(PROGRAMS[word])
    with pytest.raises(SystemExit) as left:
        program.main([f"ps-dqn {word}", "nowhere"])
    assert left.value.code == 2
    assert "--run_dir=nowhere: is not the folder of a run" in only_error(capsys.readouterr().err)


@pytest.mark.parametrize("word", PROGRAMS)
def test_it_is_said_once(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = importlib.import_module(PROGRAMS[word])
    with pytest.raises(SystemExit) as left:
        program.main([f"ps-dqn {word}", "here", "--run_dir=there"])
    assert left.value.code == 2
    said = only_error(capsys.readouterr().err)
    assert said == "--run_dir: the run's folder is said twice, as 'here' too"


@pytest.mark.parametrize("word", PROGRAMS)
def test_help_shows_it(
    word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = f"ps-dqn {word}"
    monkeypatch.setattr("sys.argv", [called, "--help"])
    assert importlib.import_module(PROGRAMS[word]).main([called, "--help"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"{called} [RUN] [--flag=value …]"
