"""Whether a cluster has the tasks that the topology of a run is made of."""

import json

import pytest
from support.command_lines import parsed

from ps_dqn.cluster.spec import ClusterSpecError, Task
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, place, tasks

REMOTE = ("--chief_host=a:1", "--ps_hosts=b:1", "--worker_hosts=c:1,d:1,e:1")
APEX, SEED = "--topology=apex", "--topology=seed"


def refused(*words: str) -> str:
    with pytest.raises((ClusterSpecError, UsageError)) as caught:
        tasks.read_placement(parsed(*words))
    return str(caught.value)


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*REMOTE, APEX), "no replay server in the cluster: --topology=apex needs at least one"),
        (
            (*REMOTE, APEX, "--replay_hosts=f:1", "--num_replay_servers=4"),
            "--num_replay_servers=4: the cluster has 1 of them; say as many addresses",
        ),
        # What says where only some tasks are is no local run beside them.
        ((APEX, "--replay_hosts=f:1"), "no chief in the cluster: the coordinator needs an address"),
        ((SEED, "--actor_hosts=f:1,g:1"), "no chief in the cluster: the coordinator needs"),
        (
            (SEED, "--cluster=local", "--actor_hosts=f:1,g:1"),
            "--cluster=local: its tasks are on this machine, at addresses of its own; leave "
            "--actor_hosts out",
        ),
    ],
)
def test_addresses_of_other_tasks_than_it_has(words: tuple[str, ...], says: str) -> None:
    assert refused(*words).startswith(says)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("replay", "TF_CONFIG has replay servers: only --topology=apex has them"),
        ("actor", "TF_CONFIG has actor tasks: only --topology=seed has them"),
    ],
)
def test_tasks_of_a_topology_that_is_not_said(
    job: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1"], job: ["d:1"]}
    shown = {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(shown))

    assert refused().startswith(says)


def test_a_run_that_is_resumed_says_all_of_its_flags() -> None:
    for words in ((), REMOTE, (SEED,), (APEX,)):
        placement = tasks.read_placement(parsed(*words, "--num_replay_servers=1"))
        assert len(placement.spec.replay) == (words == (APEX,))


WORKERS = ("c-0:1", "c-1:1", "f-2:1", "f-3:1", "f-4:1")
SERVERS = ("--chief_host=a:1", "--ps_hosts=b:1", "--replay_hosts=r:1")


@pytest.mark.parametrize(
    "words",
    [
        ("--worker_hosts=c-{}:1", "--num_workers=2", "--actor_hosts=f-{}:1"),
        ("--worker_hosts=c-{}:1", "--actor_hosts=f-{}:1"),
        ("--worker_hosts=c-0:1,c-1:1", "--actor_hosts=f-2:1,f-3:1,f-4:1"),
        (f"--worker_hosts={','.join(WORKERS)}",),
    ],
)
def test_learners_and_actors_may_have_addresses_of_their_own(words: tuple[str, ...]) -> None:
    of = (APEX, "--num_learners=2", "--num_actors=3")
    spec = tasks.read_placement(parsed(*SERVERS, *words, *of)).spec
    assert spec.workers == WORKERS
    assert spec.actors == (), "they are of TensorFlow's cluster, unlike actors of SEED"


def test_an_actor_finds_its_place_without_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_INDEX", "3")
    values = command_line.new_flags()
    tasks.define_addresses(values)
    tasks.define_task(values)
    experiment.define_num_actors(values)
    words = ("--worker_hosts=c-{}:1", "--num_workers=2", "--actor_hosts=f-{}:1", "--num_actors=3")
    command_line.parse(values, ["worker", *SERVERS, *words])
    spec, task = place.of_task(values, "worker")
    assert spec.workers == WORKERS
    assert task == Task("worker", 3)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--num_workers=3", "--actor_hosts=f:1,g:1"),
            "--num_workers=3: with --topology=apex, workers are the learners where actors are "
            "apart from them, and --num_learners=1: make both the same",
        ),
        (("--actor_hosts=f:1",), "--actor_hosts=f:1: are 1, and --num_actors=2: say as many"),
    ],
)
def test_other_actors_or_learners_than_said(words: tuple[str, ...], says: str) -> None:
    assert refused(*REMOTE[:2], "--worker_hosts=c:1", "--replay_hosts=r:1", APEX, *words) == says


def test_a_cluster_as_its_topology_is_taken() -> None:
    numbered = (*REMOTE, APEX, "--replay_hosts=f-{}:1", "--num_replay_servers=2")
    assert tasks.read_placement(parsed(*numbered)).spec.replay == ("f-0:1", "f-1:1")
    counted = (*REMOTE, APEX, "--replay_hosts=f:1,g:1")
    assert tasks.read_placement(parsed(*counted)).spec.replay == ("f:1", "g:1")
