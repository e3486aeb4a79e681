"""A proxy of the environment is for the world outside: no task is connected to through it."""

import json
import os
import pathlib

import pytest
from support.processes import Processes
from support.remote_tasks import MODULES
from support.tiers import tiered

from ps_dqn.cluster import ports, proxies
from ps_dqn.cluster.spec import ClusterSpec, Task

PROXY = "http://127.0.0.1:9"  # discards whatever it is sent
CLUSTER = ClusterSpec("c.example:1", ("[::1]:2",), ("10.0.0.3:3", "c.example:4"), (), ("actor:5",))
HOSTS = "c.example,::1,10.0.0.3,actor"
RUN = (
    *("--num_envs=8", "--hidden_sizes=16,16", "--jit_compile=none", "--min_replay_size=200"),
    *("--eval_period=100000", "--eval_episodes=2", "--confirm_episodes=0", "--target_return=inf"),
    *("--total_env_steps=2400", "--num_workers=2"),
)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({"no_proxy": "a"}, None),
        ({"http_proxy": PROXY}, HOSTS),
        ({"grpc_proxy": PROXY}, HOSTS),
        ({"https_proxy": PROXY, "no_proxy": "a, b"}, f"a, b,{HOSTS}"),
        ({"https_proxy": PROXY, "no_proxy": "a", "no_grpc_proxy": "b"}, f"b,{HOSTS}"),
    ],
)
def test_grpc_leaves_out_the_hosts_of_the_cluster_and_those_left_out_before(
    given: dict[str, str], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", dict(given))
    proxies.go_around(CLUSTER)
    # The rest is what a user's own code reads.
    assert os.environ == given | ({"no_grpc_proxy": found} if found else {})
    once = dict(os.environ)
    proxies.go_around(CLUSTER)
    assert os.environ == once


@pytest.mark.parametrize(
    "flags",
    tiered(
        [
            (),
            ("--start_method=spawn", "--topology=seed", "--num_learners=2", "--num_actors=2"),
            ("--strategy=all_reduce", "--local_updates=1"),
            ("--cluster=in_process",),
        ],
        slow=((), ("--cluster=in_process",)),
    ),
    ids=lambda flags: " ".join(flags),
)
def test_a_run_of_this_machine_goes_around_a_proxy(
    flags: tuple[str, ...], processes: Processes, tmp_path: pathlib.Path
) -> None:
    words = [*RUN[: -1 if "--topology=seed" in flags else None], *flags]
    running = processes.start(
        "-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *words, http_proxy=PROXY
    )
    assert running.ended() == 0, running.text
    assert json.loads((tmp_path / "summary.json").read_text())["env_steps"] >= 2_400


@pytest.mark.slow
def test_tasks_that_others_start_go_around_a_proxy(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    spec = ports.on_this_machine(1, 2)
    for task in spec.tasks():
        place = spec.tf_config(task)
        processes.start("-m", MODULES[task.job], TF_CONFIG=place, https_proxy=PROXY)
    running = processes.start(
        *("-m", MODULES["chief"], f"--run_dir={tmp_path}", *RUN),
        TF_CONFIG=spec.tf_config(Task("chief", 0)),
        https_proxy=PROXY,
    )
    assert running.ended() == 0, running.text
    assert json.loads((tmp_path / "summary.json").read_text())["env_steps"] >= 2_400
