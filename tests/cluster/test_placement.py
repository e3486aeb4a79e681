"""Where a task is: the coordinator's cluster, and a worker's or parameter server's place in it."""

import re
import sys
from typing import Any

import pytest
from support.command_lines import CLUSTER, parsed, tf_config

from ps_dqn.cluster import ordinal
from ps_dqn.cluster.spec import ClusterSpecError, Task, TaskOptions, numbered
from ps_dqn.flags import task_main, tasks

HOSTS = ("--chief_host=c:1", "--ps_hosts=ps-{}.ps:2", "--worker_hosts=w-{}.w:2", "--num_ps=2")


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


def test_a_run_without_servers_has_none_and_others_have_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    remote = ("--chief_host=c:1", "--worker_hosts=w-{}:2", "--num_workers=3")
    for words in ((), ("--num_ps=0",), remote, (*remote, "--ps_hosts=p-{}:2", "--num_ps=0")):
        values = parsed(*words)
        placement = tasks.read_placement(values, has_servers=False)
        assert (placement.spec.ps, values.num_ps) == ((), 0)
        assert placement.spec.workers
    for words, says in (
        (("--num_ps=1",), "--num_ps=1: --strategy=all_reduce has no parameter servers; leave"),
        ((*remote, "--ps_hosts=p:2"), "--ps_hosts=p:2: --strategy=all_reduce has no parameter"),
        (("--cluster=in_process",), "--cluster=in_process: does not go with --strategy"),
    ):
        with pytest.raises(ClusterSpecError, match=re.escape(says)):
            tasks.read_placement(parsed(*words), has_servers=False)
    for words in (("--num_ps=0",), remote):
        with pytest.raises(ClusterSpecError, match="no ps in the cluster: at least one"):
            tasks.read_placement(parsed(*words))
    monkeypatch.setenv("TF_CONFIG", tf_config("chief"))
    with pytest.raises(ClusterSpecError, match="TF_CONFIG has parameter servers: --strategy"):
        tasks.read_placement(parsed(), has_servers=False)


def test_a_coordinator_may_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert not tasks.read_placement(parsed()).restart
    assert tasks.read_placement(parsed("--restart", "--start_method=fork")).restart


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--cluster=in_process", "--start_method=fork"], "not with in_process and fork"),
        (["--start_method=spawn"], "not with local and spawn"),
        (["--start_method=fork", *HOSTS], "not with remote and fork"),
    ],
)
def test_only_the_coordinator_of_forked_tasks_may_be(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ClusterSpecError, match=f"--restart: goes with .*{says}; elsewhere"):
        tasks.read_placement(parsed("--restart", *words))


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
            "",
            ["--chief_host=c:1", "--ps_hosts=p:1", "--worker_hosts=v:1,w:1", "--task_index=1"],
            1,
        ),
        (
            "worker",
            # TF_CONFIG wins: an operator sets it, whatever a manifest's flags say.
            tf_config("worker"),
            ["--chief_host=c:1", "--ps_hosts=p:1", "--worker_hosts=v:1,w:1", "--task_index=1"],
            0,
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

    assert task_main.run(sys.argv, job, lambda *given: served.append(given)) == 0

    [(spec, task, options)] = served
    assert task == Task(job, index)
    assert options == TaskOptions(intra_op_threads=3, inter_op_threads=2, health_port=0)
    assert capsys.readouterr().out == f"{task} serves at {spec.addresses(job)[index]}\n"


def test_a_worker_is_told_where_it_may_keep_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Any] = []
    monkeypatch.setenv("TF_CONFIG", tf_config("worker"))
    for words in (["--worker_dir=/data/w"], []):
        monkeypatch.setattr(sys, "argv", ["program", *words])
        task_main.run(
            sys.argv, "worker", lambda *given: served.append(given[-2]), tasks.define_worker
        )

    assert served == ["/data/w", ""]

    monkeypatch.setattr(sys, "argv", ["program", "--help"])
    assert task_main.run(sys.argv, "worker", served.append, tasks.define_worker) == 0
    assert "\n  --worker_dir (default none)\n" in capsys.readouterr().out


NUMBERED = {
    "chief": ["c:1"],
    "ps": ["ps-0.ps:2", "ps-1.ps:2"],
    "worker": ["w-0.w:2", "w-1.w:2", "w-2.w:2"],
}


def test_one_address_stands_for_as_many_as_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)

    placement = tasks.read_placement(parsed(*HOSTS, "--num_workers=3"))

    assert placement.kind == "remote"
    assert placement.spec.as_dict() == NUMBERED


@pytest.mark.parametrize(
    ("environment", "words", "index"),
    [
        ({"POD_INDEX": "2"}, [], 2),
        ({"JOB_COMPLETION_INDEX": "1"}, [], 1),
        ({"POD_INDEX": "2", "JOB_COMPLETION_INDEX": "1"}, [], 2),
        ({"POD_INDEX": "", "JOB_COMPLETION_INDEX": "1"}, [], 1),
        ({"POD_INDEX": "2"}, ["--task_index=0"], 0),
    ],
)
def test_the_number_of_a_task_is_found(
    environment: dict[str, str],
    words: list[str],
    index: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: list[Any] = []
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["program", *HOSTS, "--num_workers=3", *words])

    task_main.run(sys.argv, "worker", lambda *given: served.append(given))

    [(spec, task, *_)] = served
    assert spec.as_dict() == NUMBERED
    assert task == Task("worker", index)


def test_listed_addresses_have_no_number_but_the_one_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A machine called node-1 may well be worker 0.
    served: list[Any] = []
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("POD_INDEX", "1")
    words = ["--chief_host=c:1", "--ps_hosts=p:1", "--worker_hosts=v:1,w:1"]
    monkeypatch.setattr(sys, "argv", ["program", *words])

    task_main.run(sys.argv, "worker", lambda *given: served.append(given))

    assert served[0][1] == Task("worker", 0)


@pytest.mark.parametrize(
    ("environment", "host_name", "index"),
    [
        ({}, "worker-17", 17),
        ({}, "run-2-worker-0.workers.default.svc", 0),
        ({"POD_INDEX": "3"}, "worker-17", 3),
    ],
)
def test_ordinal(environment: dict[str, str], host_name: str, index: int) -> None:
    assert ordinal.find(environment, host_name) == index


@pytest.mark.parametrize(
    ("environment", "host_name", "says"),
    [
        ({}, "laptop", "'laptop' does not end in -NUMBER"),
        ({}, "worker17", "set --task_index or POD_INDEX or JOB_COMPLETION_INDEX"),
        ({"POD_INDEX": "one"}, "worker-17", "POD_INDEX=one: must be a whole number"),
        ({"JOB_COMPLETION_INDEX": "-1"}, "worker-17", "JOB_COMPLETION_INDEX=-1: must be"),
    ],
)
def test_no_ordinal(environment: dict[str, str], host_name: str, says: str) -> None:
    with pytest.raises(ClusterSpecError, match=re.escape(says)):
        ordinal.find(environment, host_name)


def test_a_numbered_address_must_be_the_only_one() -> None:
    with pytest.raises(ClusterSpecError, match=r"w-\{\}:1,x:1: an address with \{\} stands for"):
        numbered(["w-{}:1", "x:1"], 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ('{"cluster": {"worker": ["w:1"]}}', "TF_CONFIG: no chief in the cluster"),
        (tf_config("worker"), "TF_CONFIG says this task is worker 0: the coordinator is"),
        (tf_config("evaluator"), "TF_CONFIG says this task is evaluator 0: the coordinator is"),
        (tf_config("chief", 1), "TF_CONFIG: task index 1 is out of range"),
    ],
)
def test_a_tf_config_of_another_project_is_to_be_unset(
    monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ClusterSpecError, match=re.escape(says)) as caught:
        tasks.read_placement(parsed())
    assert str(caught.value).endswith("; unset TF_CONFIG to train on this machine")
    with pytest.raises(ClusterSpecError, match=re.escape(says)) as caught:
        tasks.read_placement(parsed("--cluster=remote"))
    assert "unset" not in str(caught.value)
