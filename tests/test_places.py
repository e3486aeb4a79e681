"""Where a task is: the coordinator's cluster, and a worker's or parameter server's place in it."""

import json
import sys
from typing import Any

import pytest
from test_command_line import parsed

from flags import task_main, tasks

CLUSTER = {"chief": ["localhost:1"], "ps": ["localhost:2"], "worker": ["localhost:3"]}


def tf_config(job: str, index: int = 0) -> str:
    """A task's place in a small cluster, as TF_CONFIG has it."""
    return json.dumps({"cluster": CLUSTER, "task": {"type": job, "index": index}})


def test_flags_of_a_local_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    values = parsed(
        "--num_ps=2",
        "--num_workers=3",
        "--start_method=spawn",
        "--intra_op_threads=4",
        "--inter_op_threads=5",
    )

    placement = tasks.read_placement(values)

    assert (len(placement.spec.ps), len(placement.spec.workers)) == (2, 3)
    assert (placement.kind, placement.start_method) == ("local", "spawn")
    assert (placement.intra_op_threads, placement.inter_op_threads) == (4, 5)


def test_tf_config_makes_the_cluster_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", tf_config("chief"))

    placement = tasks.read_placement(parsed())

    assert placement.kind == "remote"
    assert placement.spec.as_dict() == CLUSTER


def test_host_flags_make_the_cluster_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)

    placement = tasks.read_placement(
        parsed("--chief_host=c:1", "--ps_hosts=p:1,q:1", "--worker_hosts=w:1")
    )

    assert placement.kind == "remote"
    assert placement.spec.as_dict() == {"chief": ["c:1"], "ps": ["p:1", "q:1"], "worker": ["w:1"]}


def test_local_wins_overtf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", tf_config("chief"))

    assert tasks.read_placement(parsed("--cluster=local")).kind == "local"


@pytest.mark.parametrize(
    ("job", "environment", "words", "index"),
    [
        ("worker", tf_config("worker"), [], 0),
        ("ps", tf_config("ps"), [], 0),
        (
            "worker",
            # The host flags win.
            tf_config("worker"),
            ["--chief_host=c:1", "--ps_hosts=p:1", "--worker_hosts=v:1,w:1", "--task_index=1"],
            1,
        ),
    ],
)
def test_good_place_of_a_task(
    job: str,
    environment: str,
    words: list[str],
    index: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    served: list[Any] = []
    monkeypatch.setenv("TF_CONFIG", environment)
    monkeypatch.setattr(sys, "argv", ["program", "--intra_op_threads=3", *words])

    assert task_main.run(job, lambda *given: served.append(given)) == 0

    [(spec, task, intra_op_threads, inter_op_threads)] = served
    assert task == tasks.Task(job, index)
    assert (intra_op_threads, inter_op_threads) == (3, 2)
    assert capsys.readouterr().out == f"{task} serves at {spec.addresses(job)[index]}\n"


def test_a_worker_is_told_where_it_may_keep_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Any] = []
    monkeypatch.setenv("TF_CONFIG", tf_config("worker"))
    for words in (["--worker_dir=/data/w"], []):
        monkeypatch.setattr(sys, "argv", ["program", *words])
        task_main.run("worker", lambda *given: served.append(given[-1]), tasks.define_worker_dir)

    assert served == ["/data/w", ""]

    monkeypatch.setattr(sys, "argv", ["program", "--help"])
    assert task_main.run("worker", served.append, tasks.define_worker_dir) == 0
    assert "\n  --worker_dir (default none)\n" in capsys.readouterr().out
