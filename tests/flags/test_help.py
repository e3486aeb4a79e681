"""The help: every flag once, by topic, and without waiting for TensorFlow."""

import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from support.command_lines import only_error
from support.programs import RUN_SECONDS

from ps_dqn import launch
from ps_dqn.config import Config
from ps_dqn.coordinator import __main__
from ps_dqn.flags import experiment
from ps_dqn.sweep import __main__ as sweep


def test_help_goes_by_topic_and_does_not_import_tensorflow() -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ps_dqn.coordinator", "--help=all"],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )

    assert ended.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "ps_dqn.flags.experiment" in imported  # the list of imports is there
    assert "tensorflow" not in imported
    _assert_help_goes_by_topic(ended.stdout)


def _topics() -> dict[str, list[str]]:
    topics = {**experiment.topics(), **dict(__main__.TOPICS.values())}
    return {title: list(names) for title, names in topics.items()}


def _shown(text: str) -> list[str]:
    return re.findall(r"^  --(?:\[no\])?(\w+)", text, re.MULTILINE)


def _assert_help_goes_by_topic(text: str) -> None:
    topics = _topics()
    lines = text.splitlines()
    shown: dict[str, list[str]] = {}
    for line in lines:
        if line in topics:
            shown[line] = []
        elif flags := _shown(line):
            shown[list(shown)[-1]] += flags
    assert shown == topics
    assert list(shown) == list(topics)
    assert max(len(line) for line in lines) <= 100


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert __main__.main(["program", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("word", ["--help=all", "-h=all", "-help=all", "--helpfull"])
def test_ways_to_ask_for_all(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    _assert_help_goes_by_topic(asked(capsys, "--gamma=abc", word))


@pytest.mark.parametrize("word", ["--help", "-h", "-help"])
def test_help_begins_with_what_people_reach_for(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = asked(capsys, "--gamma=abc", word)
    assert _shown(text) == list(__main__.FIRST_FLAGS)
    assert len(_shown(text)) == 10
    assert "--help=all shows all flags" in text
    listed = dict(re.findall(r"^  (\w+) +(\w.*)$", text, re.MULTILINE))
    assert list(listed.values()) == list(_topics())
    for topic, title in listed.items():
        of_topic = asked(capsys, f"--help={topic}")
        assert _shown(of_topic) == _topics()[title]
        assert title in of_topic.splitlines()


def test_help_of_one_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert _shown(asked(capsys, "--help=gamma")) == ["gamma"]
    assert _shown(asked(capsys, "--help=--gamma")) == ["gamma"]


def test_help_of_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        __main__.main(["program", "--help=repaly"])
    assert caught.value.code == 2
    assert only_error(capsys.readouterr().err) == (
        "--help=repaly: there is no such topic or flag; did you mean replay? --help lists the "
        "topics"
    )


def test_help_says_defaults_choices_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    text = asked(capsys, "--help=all")
    gamma, sizes = Config().learning.gamma, Config().network.hidden_sizes
    assert f"  --gamma (default {gamma})\n      Discount per environment step.\n" in text
    assert (
        "  --loss [huber|squared|log_cosh] (default huber)\n      Loss of the TD error.\n" in text
    )
    assert f"  --hidden_sizes (default {','.join(map(str, sizes))})\n" in text
    assert "  --target_return (default none)\n" in text
    assert "  --[no]double_dqn (default true)\n" in text


@pytest.mark.parametrize(
    ("main", "own"),
    [
        (sweep.main, ["output", "vary", "seeds", "jobs", "search", "trials", "metric", "preset"]),
        (launch.main, ["name", "preset", "flagfile", "workers", "ps", "replay_servers"]),
    ],
    ids=["sweep", "launch"],
)
def test_programs_that_take_an_experiment_show_their_own_flags_and_its_topics(
    main: Callable[[list[str]], int], own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def help_of(*words: str) -> str:
        assert main(["program", *words]) == 0
        return capsys.readouterr().out

    text = help_of("--help")
    assert _shown(text)[: len(own)] == own
    assert len(_shown(text)) < 40
    listed = dict(re.findall(r"^  (\w+) +(\w.*)$", text, re.MULTILINE))
    assert listed.items() >= experiment.topic_words().items()
    for topic, title in listed.items():
        assert title in help_of(f"--help={topic}").splitlines()
    assert {*_shown(help_of("--help=replay"))} >= {"replay_capacity", "min_replay_size"}
    everything = _shown(help_of("--help=all"))
    assert {*everything} >= {*own, "gamma", "replay_capacity"}
    assert len(everything) == len({*everything})
