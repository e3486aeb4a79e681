"""The help: every flag once, by topic, and without waiting for TensorFlow."""

import re
import subprocess
import sys

import pytest

from ps_dqn.config import Config
from ps_dqn.coordinator import __main__
from ps_dqn.flags import command_line, experiment, tasks


def test_help_goes_by_topic_and_does_not_import_tensorflow() -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ps_dqn.coordinator", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "ps_dqn.flags.experiment" in imported  # the list of imports is there
    assert "tensorflow" not in imported
    _assert_help_goes_by_topic(ended.stdout)


def _assert_help_goes_by_topic(text: str) -> None:
    topics = {
        **experiment.topics(),
        "Where the tasks run.": list(tasks.PLACEMENT),
        "Where the files go.": list(__main__.FILE_FLAGS),
        "How it is watched.": list(__main__.HEALTH_FLAGS),
    }
    lines = text.splitlines()
    shown: dict[str, list[str]] = {}
    for line in lines:
        if line in topics:
            shown[line] = []
        elif flag := re.match(r"  --(?:\[no\])?(\w+)", line):
            shown[list(shown)[-1]].append(flag[1])
    assert shown == topics
    assert list(shown) == list(topics)
    *flags, flagfile = lines
    assert max(len(line) for line in flags) <= 100
    presets = sorted(path.stem for path in command_line.PRESETS.glob("*.flags"))
    assert flagfile.endswith(", ".join(presets))


@pytest.mark.parametrize("word", ["--help", "-h", "-help", "--helpfull"])
def test_ways_to_ask_for_help(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["program", "--gamma=abc", word]) == 0

    _assert_help_goes_by_topic(capsys.readouterr().out)


def test_help_says_defaults_choices_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    __main__.main(["program", "--help"])

    text = capsys.readouterr().out
    gamma, sizes = Config().learning.gamma, Config().network.hidden_sizes
    assert f"  --gamma (default {gamma})\n      Discount per environment step.\n" in text
    assert (
        "  --loss [huber|squared|log_cosh] (default huber)\n      Loss of the TD error.\n" in text
    )
    assert f"  --hidden_sizes (default {','.join(map(str, sizes))})\n" in text
    assert "  --target_return (default none)\n" in text
    assert "  --[no]double_dqn (default true)\n" in text
