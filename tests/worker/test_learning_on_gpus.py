"""What is compiled for workers with GPUs; there is none here, so devices go by their names."""

import pytest
import tensorflow as tf
from support import kinds_of_runs
from support.small import SMALL, make_closures

from ps_dqn.config import Config
from ps_dqn.coordinator.connecting import gpus

IMAGES = {"env_id": f"{kinds_of_runs.MODULE}:Shown", **kinds_of_runs.KINDS["nature"]}
APEX = {"topology": "apex", "num_learners": 1, "num_actors": 1, "replay": "prioritized"}
WORKER = "/job:worker/replica:0/task:{}/device:GPU:{}"


def compiled_operations(graph: tf.Graph) -> set[str]:
    """The operations of a graph's functions that XLA compiles, and of those that they call."""
    library = {each.signature.name: each for each in graph.as_graph_def().library.function}
    waiting = [name for name, each in library.items() if each.attr["_XlaMustCompile"].b]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            nodes = library[name].node_def
            waiting += [attr.func.name for node in nodes for attr in node.attr.values()]
            waiting = [name for name in waiting if name in library]
    return {node.op for name in seen for node in library[name].node_def}


@pytest.mark.usefixtures("coordinator")
def test_devices_of_a_connected_cluster_tell_which_workers_have_them() -> None:
    # Processors are listed as GPUs are; that of this process and those of servers do not count.
    names = [device.name for device in tf.config.list_logical_devices("CPU")]
    assert len(names) > 2
    assert gpus.workers_with(names) == {0, 1}
    assert gpus.workers_with(gpus.devices()) == set()


def test_a_worker_may_have_several_gpus() -> None:
    names = [WORKER.format(2, 0), WORKER.format(0, 0), WORKER.format(2, 1)]
    names += ["/job:localhost/replica:0/task:0/device:GPU:0"]
    assert gpus.workers_with(names) == {0, 2}


@pytest.mark.parametrize(
    ("having", "present", "values", "expected", "said"),
    [
        ([], {0, 1}, {}, False, []),
        ([0], {0, 1}, {}, False, ["GPUs: 1 of 2 workers that learn have one"]),
        ([0, 1], {0, 1}, {}, True, ["GPUs: 2 of 2 workers that learn have one"]),
        # Of those that are there.
        ([1], {1}, {}, True, ["GPUs: 1 of 1 workers that learn have one"]),
        # Actors, the last ones, need none; one that has a GPU in vain is told of.
        ([0], {0, 1}, APEX, True, ["GPUs: 1 of 1 workers that learn have one"]),
        ([1], {0, 1}, APEX, False, ["GPUs: 0 of 1 workers that learn have one"]),
        ([1], {1}, APEX, False, ["GPUs: 0 of 0 workers that learn have one"]),
    ],
)
def test_learning_is_on_gpus_where_every_learner_has_one(
    having, present, values, expected, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "devices", lambda: [WORKER.format(each, 0) for each in having])
    lines: list[str] = []
    config = Config.from_values(values)
    assert gpus.learns_on_them(config, 2, present, lines.append) == expected
    assert lines == said


@pytest.mark.usefixtures("coordinator")
@pytest.mark.parametrize("on_gpus", [True, False])
def test_convolutions_are_compiled_where_learning_is_on_gpus(on_gpus: bool) -> None:
    config = Config.from_values(SMALL | IMAGES | {"jit_compile": "auto"})
    _, closures = make_closures(config, num_ps=1, num_workers=1, on_gpus=on_gpus)
    compiled = compiled_operations(closures.train.graph)
    assert ("Conv2D" in compiled) == on_gpus
    assert "Sqrt" in compiled  # the optimizer's, either way
