"""Who is in the cluster: TF_CONFIG, host flags and this machine."""

import json
import socket
import subprocess
import sys
from typing import Any

import portpicker
import pytest

from ps_dqn.cluster import ports
from ps_dqn.cluster import spec as cluster_spec
from ps_dqn.cluster.spec import ClusterSpec, ClusterSpecError, Task

CHIEF, PS, WORKERS = "c.example:2222", ["p0:2222", "p1:2222"], ["w0:2222", "w1:2222", "w2:2222"]
CLUSTER = {"chief": [CHIEF], "ps": PS, "worker": WORKERS}


def _tf_config(cluster: Any = None, task: Any = None) -> str:
    return json.dumps(
        {"cluster": cluster or CLUSTER, "task": task or {"type": "worker", "index": 1}}
    )


def _cluster(**jobs: Any) -> dict[str, Any]:
    """A good cluster with some jobs replaced; None leaves a job out."""
    return {job: each for job, each in {**CLUSTER, **jobs}.items() if each is not None}


def _task(type_: Any, index: Any) -> dict[str, Any]:
    return {"type": type_, "index": index}


def test_tf_config_gives_the_cluster_and_this_task() -> None:
    spec, task = cluster_spec.from_tf_config(_tf_config())

    assert spec == ClusterSpec(CHIEF, tuple(PS), tuple(WORKERS))
    assert task == Task("worker", 1)
    assert spec.as_dict() == CLUSTER


def test_evaluator_is_left_out_of_the_cluster() -> None:
    text = _tf_config(_cluster(evaluator=["e0:2222"]), _task("evaluator", 0))

    spec, task = cluster_spec.from_tf_config(text)

    assert spec.as_dict() == CLUSTER
    assert task == Task("evaluator", 0)


def test_index_is_zero_where_none_is_given() -> None:
    _, task = cluster_spec.from_tf_config(_tf_config(task={"type": "chief"}))

    assert task == Task("chief", 0)


@pytest.mark.parametrize("address", ["10.0.0.1:1", "[::1]:65535", "w.default.svc.cluster.local:80"])
def test_addresses_that_are_good(address: str) -> None:
    spec, _ = cluster_spec.from_tf_config(
        _tf_config(_cluster(worker=[address]), _task("worker", 0))
    )

    assert spec.addresses("worker") == (address,)


@pytest.mark.parametrize("task", [Task("chief", 0), Task("ps", 1), Task("worker", 2)], ids=str)
def test_tf_config_round_trip(task: Task) -> None:
    spec = ClusterSpec(CHIEF, tuple(PS), tuple(WORKERS))

    assert cluster_spec.from_tf_config(spec.tf_config(task)) == (spec, task)


def test_tasks_are_all_but_the_coordinator_parameter_servers_first() -> None:
    spec = ClusterSpec(CHIEF, tuple(PS), tuple(WORKERS))

    assert spec.tasks() == (
        Task("ps", 0),
        Task("ps", 1),
        Task("worker", 0),
        Task("worker", 1),
        Task("worker", 2),
    )


def test_tasks_have_names_people_know() -> None:
    assert [str(Task(job, 0)) for job in ("chief", "ps", "worker")] == [
        "coordinator 0",
        "parameter server 0",
        "worker 0",
    ]


def test_from_hosts() -> None:
    spec, task = cluster_spec.from_hosts(CHIEF, PS, WORKERS, Task("ps", 1))

    assert spec.as_dict() == CLUSTER
    assert task == Task("ps", 1)


def test_there_may_be_no_parameter_server() -> None:
    for ps in (None, []):
        spec, _ = cluster_spec.from_tf_config(_tf_config(_cluster(ps=ps)))
        assert spec.as_dict() == {"chief": [CHIEF], "worker": WORKERS}
        assert {each.job for each in spec.tasks()} == {"worker"}
    assert cluster_spec.from_hosts(CHIEF, [], WORKERS, Task("worker", 0))[0] == spec


@pytest.mark.parametrize(
    ("chief", "ps", "workers", "task", "says"),
    [
        ("", PS, WORKERS, Task("ps", 0), "no chief"),
        (CHIEF, PS, [], Task("ps", 0), "no worker"),
        (CHIEF, PS, WORKERS, Task("ps", 2), "task index 2 is out of range"),
        (CHIEF, PS, WORKERS, Task("reader", 0), "'reader' is unknown"),
        (CHIEF, PS, [PS[0]], Task("worker", 0), "p0:2222 is given to 2 tasks"),
    ],
)
def test_bad_hosts(chief: str, ps: list[str], workers: list[str], task: Task, says: str) -> None:
    with pytest.raises(ClusterSpecError) as caught:
        cluster_spec.from_hosts(chief, ps, workers, task)

    _is_one_line_with(str(caught.value), says)


def test_on_this_machine_gives_every_task_a_free_port_of_its_own() -> None:
    spec = ports.on_this_machine(num_ps=2, num_workers=3)

    addresses = [spec.chief, *spec.ps, *spec.workers]
    assert (len(spec.ps), len(spec.workers)) == (2, 3)
    assert len(set(addresses)) == 6
    for address in addresses:
        host, _, port = address.rpartition(":")
        assert host == "localhost"
        with socket.socket() as server:
            server.bind((host, int(port)))


def test_no_two_clusters_are_given_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    # Neither has a server yet, which takes seconds to start.
    ask = (
        "import portpicker, sys; print(any(portpicker.is_port_free(int(p)) for p in sys.argv[1:]))"
    )
    spec = ports.on_this_machine(num_ps=1, num_workers=1)
    numbers = [each.rpartition(":")[2] for each in (spec.chief, *spec.ps, *spec.workers)]
    are_offered = subprocess.run(
        [sys.executable, "-c", ask, *numbers], capture_output=True, text=True, check=True
    )
    assert are_offered.stdout.strip() == "False"
    # And where another asked at the same moment:
    offered = iter([int(numbers[0]), portpicker.pick_unused_port()])
    monkeypatch.setattr("portpicker.pick_unused_port", lambda: next(offered))
    assert ports.reserved_port() != int(numbers[0])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ("[" * 100_000, "TF_CONFIG is nested too deeply"),
        ('{"cluster":\n\n nothing}', "TF_CONFIG is not JSON"),
        ("[]", 'no "cluster" object'),
        ("{}", 'no "cluster" object'),
        ('{"cluster": ["w0:1"]}', 'no "cluster" object'),
        (_tf_config(_cluster(chief=None)), "no chief"),
        (_tf_config(_cluster(chief=[])), "no chief"),
        (_tf_config(_cluster(worker=None)), "no worker"),
        (_tf_config(_cluster(worker=[])), "no worker"),
        (_tf_config(_cluster(chief=[CHIEF, "c1:2222"])), "only one chief"),
        (_tf_config(_cluster(ps=["p0:1", "p0:1"])), "p0:1 is given to 2 tasks"),
        (_tf_config(_cluster(worker=[CHIEF])), f"{CHIEF} is given to 2 tasks"),
        (_tf_config(_cluster(master=["m0:2222"])), "job 'master' is unknown"),
        (_tf_config(_cluster(ps="p0:2222")), "job 'ps' must be a list"),
        (_tf_config(_cluster(worker={"0": "w0:2222"})), "job 'worker' must be a list"),
        (_tf_config(_cluster(ps=["p0"])), "'p0' must be host:port"),
        (_tf_config(_cluster(ps=[":2222"])), "':2222' must be host:port"),
        (_tf_config(_cluster(ps=["p0:"])), "'p0:' must be host:port"),
        (_tf_config(_cluster(ps=["grpc://p0:1"])), "'grpc://p0:1' must be host:port"),
        (_tf_config(_cluster(ps=["p 0:1"])), "'p 0:1' must be host:port"),
        (_tf_config(_cluster(chief=["c0:1,c1:1"])), "'c0:1,c1:1' must be host:port"),
        (_tf_config(_cluster(ps=["p0:grpc"])), "'p0:grpc' must be host:port"),
        (_tf_config(_cluster(ps=["p0:-1"])), "'p0:-1' must be host:port"),
        (_tf_config(_cluster(ps=["p0:²"])), "'p0:²' must be host:port"),
        (_tf_config(_cluster(ps=[2222])), "2222 must be host:port"),
        (_tf_config(_cluster(ps=[None])), "None must be host:port"),
        (_tf_config(_cluster(ps=["p0:0"])), "port must be 1 to 65535"),
        (_tf_config(_cluster(ps=["p0:65536"])), "port must be 1 to 65535"),
        (json.dumps({"cluster": CLUSTER}), 'no "task" object'),
        (_tf_config(task="worker"), 'no "task" object'),
        (_tf_config(task={"index": 0}), 'no "task" object'),
        (_tf_config(task=_task("master", 0)), "task type 'master' is unknown"),
        (_tf_config(task=_task("worker", 3)), "task index 3 is out of range"),
        (_tf_config(task=_task("worker", -1)), "task index -1 is out of range"),
        (_tf_config(task=_task("chief", 1)), "has 1 chief task,"),
        (_tf_config(task=_task("worker", "one")), "task index 'one' must be a whole number"),
        (_tf_config(task=_task("worker", None)), "task index None must be a whole number"),
        (_tf_config(task=_task("worker", [1])), "task index [1] must be a whole number"),
        (_tf_config(task=_task("worker", 1.5)), "task index 1.5 must be a whole number"),
        (_tf_config(task=_task("worker", float("inf"))), "task index inf must be a whole number"),
    ],
)
def test_bad_tf_config(text: str, says: str) -> None:
    with pytest.raises(ClusterSpecError) as caught:
        cluster_spec.from_tf_config(text)

    _is_one_line_with(str(caught.value), says)


def _is_one_line_with(message: str, says: str) -> None:
    assert says in message
    assert len(message.splitlines()) == 1
