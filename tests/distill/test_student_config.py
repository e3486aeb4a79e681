"""What a student is, of a teacher and what is said."""

from typing import Any

import pytest

from ps_dqn.config import Config
from ps_dqn.config.distillation import Distillation
from ps_dqn.distill import student
from ps_dqn.errors import UsageError

SIZES = {"hidden_sizes": (32,)}


def teacher(**values: Any) -> Config:
    return Config.from_values(values)


def test_it_is_as_its_teacher_but_for_what_is_said() -> None:
    run = teacher(
        **{"env_id": "Acrobot-v1", "hidden_sizes": (64, 64), "activation": "tanh"},
        **{"normalize_observations": "on", "frame_stack": 2, "gamma": 0.9},
    )
    found = student.of(run, SIZES, seed=7)
    assert found.environment == run.environment
    assert found.network.hidden_sizes == (32,)
    assert found.run.seed == 7
    same = {**run.values, **SIZES, "seed": 7}
    assert found == Config.from_values(same)


@pytest.mark.parametrize(
    "values",
    [
        {"value_distribution": "c51", "num_atoms": 21, "v_max": 500.0, "noisy": True},
        {"value_distribution": "iqn", "num_cosines": 8, "noisy_sigma": 0.1, "noisy": True},
        {"pruning": "rigl", "sparsity": 0.8, "rigl_fraction": 0.2, "pruning_end": "70%"},
        {"value_distribution": "hl_gauss", "hl_gauss_sigma": 0.5, "dueling": True},
        {"value_distribution": "qr_dqn", "num_quantiles": 9, "munchausen": True}
        | {"double_dqn": False, "munchausen_alpha": 0.8},
        {"network": "impala", "pooled_size": 4, "spectral_norm": True, "network_width": 0.5},
    ],
)
def test_it_is_plain_whatever_its_teacher_is(values: dict[str, Any]) -> None:
    found = student.of(teacher(**values), SIZES, 0)
    assert found.value.value_distribution == "none"
    assert (found.network.dueling, found.network.noisy) == (False, False)
    assert not found.pruning.is_on
    for name in ("network", "network_width", "pooled_size", "spectral_norm"):
        assert getattr(found.network, name) == getattr(teacher(**values).network, name)


def test_another_torso_leaves_what_was_only_for_the_first() -> None:
    run = teacher(network="impala", pooled_size=4, spectral_norm=True, network_width=0.5)
    found = student.of(run, {"network": "mlp"}, 0)
    assert found.network.hidden_sizes == run.network.hidden_sizes
    assert (found.network.pooled_size, found.network.network_width) == (0, 1.0)
    with pytest.raises(UsageError, match="--pooled_size=2: has no effect without --network=impala"):
        student.of(run, {"network": "mlp", "pooled_size": 2}, 0)


def test_a_flag_makes_it_dueling() -> None:
    assert student.of(teacher(), {"dueling": True}, 0).network.dueling


@pytest.mark.parametrize(
    ("values", "said", "what"),
    [
        ({"recurrent_size": 5}, SIZES, "--recurrent_size=5: .*distill one without an LSTM"),
        ({}, {}, r"--hidden_sizes: say how large .*\(the run's network has 128,128\)"),
        ({"network": "mine:build"}, SIZES, r"--network=mine:build: .*say --network=mlp\|nature"),
        ({}, {"hidden_sizes": (0,)}, "--hidden_sizes=0: must be 1 or more"),
        ({}, {"network_width": 0.5}, "--network_width=0.5: has no effect without --network=nature"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], said: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        student.of(teacher(**values), said, 0)


def test_a_network_of_ones_own_may_have_a_student() -> None:
    found = student.of(teacher(network="mine:build"), {"network": "mlp", **SIZES}, 0)
    assert student.describe(found) == "mlp 32"


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"loss": "mse", "temperature": 1.0}, "--temperature=1.0: has no effect without --loss=kl"),
        ({"temperature": 0.0}, "--temperature=0.0: must be 1e-06 or more"),
        ({"loss": "huber"}, "--loss=huber: must be one of kl, mse, nll"),
        ({"epsilon": 2.0}, "--epsilon=2.0: must be 1.0 or less"),
    ],
)
def test_ways_to_learn_that_are_none_are_refused(values: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        Distillation(**values)


def test_its_folder_is_called_what_it_is() -> None:
    assert student.name(SIZES) == "distilled-32"
    assert student.name({"hidden_sizes": (64, 32)}) == "distilled-64-32"
    said = {"network_width": 0.5, "dueling": True, "network": "a.b:c"}
    assert student.name(said) == "distilled-network_width-0.5-dueling-true-network-a.b-c"


def test_networks_are_described_for_people() -> None:
    impala = teacher(network="impala", network_width=0.5, dueling=True, value_distribution="iqn")
    assert student.describe(impala) == "impala ×0.5 128,128 iqn dueling"
    assert student.describe(teacher(network="mine:build")) == "mine:build"
