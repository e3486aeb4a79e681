"""What cannot fit into memory is refused before any task starts."""

import numpy as np
import pytest

from ps_dqn import user_code
from ps_dqn.config import Config
from ps_dqn.coordinator.checks import footprint
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay.budget import Limit

SPEC = EnvironmentSpec((10,), np.dtype(np.float32), 2, None)
IMAGES = EnvironmentSpec((4, 84, 84), np.dtype(np.uint8), 2, None)
GIB = 2**30


def check(limit: int, environment=SPEC, workers=2, is_remote=False, **options) -> None:
    config = Config.from_values(options)
    footprint.check(config, environment, workers, is_remote, Limit(limit, "of the machine"))


def refusal(*args, **kwargs) -> str:
    with pytest.raises(UsageError) as caught:
        check(*args, **kwargs)
    return str(caught.value)


def test_minibatches() -> None:
    # Two observations of 40 bytes, of 1,000 transitions, for each of 64 updates, in two workers.
    needed = 2 * 40 * 1000 * 64 * 2
    check(needed, batch_size=1000, hidden_sizes=(4,))
    assert refusal(needed - 1, batch_size=1000, hidden_sizes=(4,)) == (
        "--batch_size=1000: the minibatches of --local_updates=64 take 9.8 MiB in 2 workers, and "
        "there are 9.8 MiB of the machine: make one of them smaller"
    )
    # Remote workers have machines of their own.
    check(needed // 2, batch_size=1000, hidden_sizes=(4,), is_remote=True)
    assert "in 1 worker," in refusal(
        needed // 2 - 1, batch_size=1000, hidden_sizes=(4,), is_remote=True
    )


def test_sequences_and_rollouts_take_less() -> None:
    check(GIB, IMAGES, batch_size=64, network="nature", hidden_sizes=(16,))
    large = {"batch_size": 2048, "network": "nature", "hidden_sizes": (16,)}
    assert refusal(GIB, IMAGES, **large).startswith("--batch_size=2048: ")
    rollout = {"target_update_period": 0, "n_step": 1, "double_dqn": False}
    check(GIB, IMAGES, replay="rollout", **rollout, **large)


def test_parameters() -> None:
    weights = 10 * 100 + 100 * 50 + 50 * 2
    # Of a server 4, of each worker 7, of the coordinator 5 vectors.
    needed = (4 + 2 * 7 + 5) * 4 * weights
    small = {"batch_size": 1, "local_updates": 1, "hidden_sizes": (100, 50)}
    check(needed, **small)
    assert refusal(needed - 1, **small) == (
        "--hidden_sizes=100,50: the parameters take 548.0 KiB in all tasks here, and there are "
        "548.0 KiB of the machine: make layers smaller"
    )
    check(5 * 4 * weights, is_remote=True, **small)
    # Workers that keep nothing for snapshots, or keep fewer bytes.
    for others in ({"snapshot_period": 0.0}, {"push_top_k": 0.1}, {"push_wire_dtype": "float16"}):
        check(needed - 2 * 4 * weights, **others, **small)
    # What comes before the dense layers of others is not known here.
    check((4 + 2 * 7 + 5) * 4 * (100 * 50 + 50 * 2), IMAGES, network="nature", **small)
    check(10**6, network="my_package:build", batch_size=1)


def test_a_module_is_looked_for_and_not_imported(monkeypatch, tmp_path) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "loud_module.py").write_text("raise RuntimeError('imported')")
    user_code.find_module("--network=loud_module:build", "loud_module")
    for name in ("no_such_module", "loud_module.child", ""):
        with pytest.raises(UsageError, match="cannot be imported"):
            user_code.find_module(f"--network={name}:build", name)
