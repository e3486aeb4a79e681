"""The GPUs of a connected cluster, and whether learning is done on them.

Workers alone have any (`cluster.server.session_config`).
"""

from collections.abc import Callable, Collection, Iterable

import tensorflow as tf

from ps_dqn.config import Config


def devices() -> list[str]:
    """Names of the GPUs that this process and the tasks that it is connected to have."""
    return [device.name for device in tf.config.list_logical_devices("GPU")]


def of_workers(names: Iterable[str]) -> dict[int, int]:
    """How many GPUs each worker has that has any, by its index, of the devices of a cluster."""
    places = [tf.DeviceSpec.from_string(name) for name in names]
    indices = sorted(place.task for place in places if place.job == "worker")
    return {index: indices.count(index) for index in indices}


def learns_on_them(
    config: Config, num_workers: int, present: Collection[int], say: Callable[[str], None]
) -> bool:
    """Whether each worker that learns has a GPU; says how many have, if any worker does.

    All workers run one graph, so what it is compiled for has to suit the last of them.

    Args:
        config: the experiment.
        num_workers: of the cluster.
        present: indices of those that are there.
        say: shows a line.
    """
    gpus = of_workers(devices())
    learners = set(range(config.topology.pushing(num_workers))) & set(present)
    having = learners & gpus.keys()
    if gpus:
        say(f"GPUs: {len(having)} of {len(learners)} workers that learn have one")
    return bool(learners) and having == learners
