"""How many tasks there are: by their addresses, and by a number where that is said, too."""

import pathlib

import pytest
from support.command_lines import parsed

from ps_dqn.cluster.spec import ClusterSpecError
from ps_dqn.flags import command_line, run_folder, tasks
from ps_dqn.run import directory

REMOTE = ("--chief_host=a:1", "--ps_hosts=b:1", "--worker_hosts=c:1")
SEED = ("--preset=seed,cartpole", "--actor_hosts=d-{}:1")
APEX = ("--preset=ape_x,cartpole", "--replay_hosts=e:1")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--num_workers=3",), "--num_workers=3: the cluster has 1 of them; say as many addresses"),
        (("--num_ps=2",), "--num_ps=2: the cluster has 1 of them; say as many addresses"),
    ],
)
def test_a_count_that_is_not_the_addresses_is_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(ClusterSpecError, match=f"^{says}"):
        tasks.read_placement(parsed(*REMOTE, *words))


@pytest.mark.parametrize(
    ("words", "workers"),
    [
        ((), 1),
        (("--num_workers=1", "--num_ps=1"), 1),
        (("--worker_hosts=c:1,d:1,e:1",), 3),
        (("--worker_hosts=c-{}:1", "--num_workers=4"), 4),
    ],
)
def test_addresses_are_enough(words: tuple[str, ...], workers: int) -> None:
    assert len(tasks.read_placement(parsed(*REMOTE, *words)).spec.workers) == workers


@pytest.mark.parametrize(
    ("had", "words", "workers"),
    [
        (REMOTE, (), 1),
        (REMOTE, ("--worker_hosts=c:1,d:1,e:1",), 3),
        (("--preset=seed,cartpole",), (), 1),
        (("--preset=ape_x,cartpole",), ("--num_learners=2",), 4),
    ],
)
def test_what_a_run_has_written_down_is_not_said_again(
    had: tuple[str, ...], words: tuple[str, ...], workers: int, tmp_path: pathlib.Path
) -> None:
    flagfile = tmp_path / directory.FLAGFILE
    flagfile.write_text(run_folder.as_flagfile(parsed(*had)) + "--num_workers=2\n")
    values = parsed()
    command_line.parse_over(flagfile, values, ["program", *words])
    assert len(tasks.read_placement(values).spec.workers) == workers


@pytest.mark.parametrize(
    ("had", "workers"),
    [
        (REMOTE, 1),
        (("--preset=seed,cartpole",), 1),
        (("--preset=ape_x,cartpole",), 3),
        ((*REMOTE, "--worker_hosts=c-{}:1", "--num_workers=4"), 4),
        ((*REMOTE, *SEED, "--worker_hosts=c-{}:1", "--num_workers=1"), 1),
        ((*REMOTE, *APEX, "--worker_hosts=c-{}:1", "--num_workers=3"), 3),
        ((*REMOTE, *APEX, "--num_workers=1", "--actor_hosts=d-{}:1"), 3),
    ],
)
def test_a_run_can_be_made_again_from_its_flagfile(
    had: tuple[str, ...], workers: int, tmp_path: pathlib.Path
) -> None:
    flagfile = tmp_path / directory.FLAGFILE
    flagfile.write_text(run_folder.as_flagfile(parsed(*had)))
    assert len(tasks.read_placement(parsed(f"--flagfile={flagfile}")).spec.workers) == workers


def test_what_is_said_beside_a_run_that_goes_on_is_checked(tmp_path: pathlib.Path) -> None:
    flagfile = tmp_path / directory.FLAGFILE
    flagfile.write_text(run_folder.as_flagfile(parsed(*REMOTE)))
    values = parsed()
    command_line.parse_over(flagfile, values, ["program", "--num_workers=3"])
    with pytest.raises(ClusterSpecError, match=r"^--num_workers=3: "):
        tasks.read_placement(values)
