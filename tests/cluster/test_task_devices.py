"""What a task's server has of its machine."""

import pytest

from ps_dqn.cluster import server


@pytest.mark.parametrize(
    ("job", "devices"), [("worker", {}), ("ps", {"GPU": 0}), ("replay", {"GPU": 0})]
)
def test_workers_alone_have_gpus(job: str, devices: dict[str, int]) -> None:
    config = server.session_config(job, 3, 2)
    assert dict(config.device_count) == devices
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (3, 2)
