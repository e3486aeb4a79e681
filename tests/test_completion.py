"""What shells complete: bash is asked, zsh and fish where they are installed."""

import pathlib
import shlex
import shutil
import subprocess

import pytest
from support.command_lines import only_error

from ps_dqn import commands, completion


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """The script of each shell, in a file."""
    folder, flags = tmp_path_factory.mktemp("completion"), completion.all_flags()
    paths = {shell: folder / shell for shell in completion.SCRIPTS}
    for shell, path in paths.items():
        path.write_text(completion.SCRIPTS[shell](flags))
    return paths


def completed(script: pathlib.Path, *words: str) -> list[str]:
    """What bash offers for the last of these words, cut at = as readline does."""
    program = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({shlex.join(words)}); "
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ps_dqn 2>/dev/null; echo "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ps-dqn", "tr"], ["train"]),
        (["ps-dqn", ""], [each.word for each in commands.PROGRAMS]),
        (["ps-dqn", "train", "--los"], ["--loss=", "--loss_scale_growth_period="]),
        (["ps-dqn", "train", "--double"], ["--double_dqn"]),
        (["ps-dqn", "train", "--nodoub"], ["--nodouble_dqn"]),
        (["ps-dqn", "train", "--loss", "="], ["huber", "squared", "log_cosh"]),
        (["ps-dqn", "train", "--loss", "=", "hu"], ["huber"]),
        (["ps-dqn", "train", "--gamma", "=", "0"], []),
        (["ps-dqn", "train", "--preset", "=", "rai"], ["rainbow"]),
        (["ps-dqn", "launch", "k8s", "--preset", "=", "rainbow,lun"], ["rainbow,lunarlander"]),
        (["ps-dqn", "worker", "--task"], ["--task_index="]),
        (["ps-dqn", "worker", "--los"], []),
        (["ps-dqn", "evaluate", "--gamma=1", "--check"], ["--checkpoint="]),
        (["ps-dqn", "nothing", "--"], []),
    ],
)
def test_bash_completes(
    scripts: dict[str, pathlib.Path], words: list[str], offered: list[str]
) -> None:
    assert completed(scripts["bash"], *words) == offered


def test_shellcheck_has_nothing_to_say(scripts: dict[str, pathlib.Path]) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck")
    command = ["shellcheck", "--shell=bash", str(scripts["bash"])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout + ran.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_can_read_theirs(scripts: dict[str, pathlib.Path], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    subprocess.run([shell, "-n", str(scripts[shell])], check=True, timeout=60)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ps-dqn tr", ["train"]),
        ("ps-dqn train --los", ["--loss", "--loss_scale_growth_period"]),
        ("ps-dqn train --loss=hu", ["--loss=huber"]),
        ("ps-dqn train --preset=rai", ["--preset=rainbow"]),
        ("ps-dqn launch k8s --preset=rainbow,lun", ["--preset=rainbow,lunarlander"]),
        ("ps-dqn train --nodoub", ["--nodouble_dqn"]),
    ],
)
def test_fish_completes(scripts: dict[str, pathlib.Path], line: str, offered: list[str]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish")
    program = f"source {shlex.quote(str(scripts['fish']))}; complete -C {shlex.quote(line)}"
    command = ["fish", "--no-config", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert [each.split("\t")[0] for each in ran.stdout.splitlines()] == offered


def test_fish_is_told_what_each_command_does(scripts: dict[str, pathlib.Path]) -> None:
    lines = [shlex.split(line) for line in scripts["fish"].read_text().splitlines()]
    said = {words[-3]: words[-1] for words in lines if words[-2] == "-d"}
    assert said == {each.word: each.summary for each in commands.PROGRAMS}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_of_the_same_words(
    scripts: dict[str, pathlib.Path], shell: str
) -> None:
    text = scripts[shell].read_text()
    for flags in completion.all_flags().values():
        for flag in flags:
            assert f"{'--' if shell == 'zsh' else '-l '}{flag.name}" in text
            assert " ".join(flag.values) in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "say which shell, bash, zsh, fish, and not nothing"),
        (["tcsh"], "say which shell, bash, zsh, fish, and not tcsh"),
        (["bash", "--gamma=1"], "gamma"),
    ],
)
def test_what_cannot_be_completed_is_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        completion.main(["program", *words])
    assert caught.value.code == 2
    assert says in only_error(capsys.readouterr().err)
