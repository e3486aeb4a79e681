"""The GPUs of a connected cluster, and whether learning is done on them.

Workers alone have any (`cluster.server.session_config`).
"""

from collections.abc import Callable, Collection, Iterable

import tensorflow as tf

from ps_dqn.config import Config


def devices() -> list[str]:
    """Names of the GPUs that this process and the tasks that it is connected to have."""
    return [device.name for device in tf.config.list_logical_devices("GPU")]


def workers_with(names: Iterable[str]) -> set[int]:
    """Indices of the workers that have any of these devices of a cluster."""
    places = [tf.DeviceSpec.from_string(name) for name in names]
    return {place.task for place in places if place.job == "worker"}


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
    having = workers_with(devices())
    learners = set(range(config.topology.pushing(num_workers))) & set(present)
    if having:
        say(f"GPUs: {len(having & learners)} of {len(learners)} workers that learn have one")
    return bool(learners) and learners <= having
