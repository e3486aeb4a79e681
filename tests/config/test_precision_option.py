"""In which numbers a run may compute."""

import pytest
from support.refusals import refused

from ps_dqn.config import Config


def test_other_numbers_are_refused() -> None:
    assert refused(precision="float8") == (
        "--precision=float8: must be one of float32, bfloat16, float16"
    )


@pytest.mark.parametrize(("scale", "near"), [(3, "2 or 4"), (1000, "512 or 1024")])
def test_a_scale_that_would_round_is_refused(scale: int, near: str) -> None:
    assert refused(precision="float16", initial_loss_scale=scale) == (
        f"--initial_loss_scale={scale}: must be a power of two, which rounds nothing; say {near}"
    )


@pytest.mark.parametrize("numbers", ["float32", "bfloat16"])
def test_a_scale_is_for_float16(numbers: str) -> None:
    assert refused(precision=numbers, initial_loss_scale=64) == (
        "--initial_loss_scale=64: has no effect without --precision=float16; leave it out (its "
        "default is 32768)"
    )


def test_scales_end() -> None:
    assert refused(precision="float16", initial_loss_scale=2**25) == (
        "--initial_loss_scale=33554432: must be 16777216 or less"
    )
    assert refused(precision="float16", initial_loss_scale=0) == (
        "--initial_loss_scale=0: must be 1 or more"
    )
    assert Config.from_values({"precision": "float16"}).precision.initial_loss_scale == 2**15


@pytest.mark.parametrize(
    ("values", "flag", "why"),
    [
        (
            {"precision": "bfloat16"},
            "--precision=bfloat16",
            "who acts in 8 bits learns in float32",
        ),
        (
            {"noisy": True},
            "--noisy=true",
            "its weights are others at every step, and would be rounded at every step",
        ),
        (
            {"network": "impala", "spectral_norm": True},
            "--spectral_norm=true",
            "its kernels are divided by their singular values before anything is rounded",
        ),
        (
            {"network": "my.networks:mlp"},
            "--network=my.networks:mlp",
            "nobody says which of its layers could be rounded",
        ),
        (
            {"topology": "apex", "replay": "prioritized"},
            "--topology=apex",
            "its actors give priorities by the values of all actions, in all their digits",
        ),
    ],
    ids=["precision", "noisy", "spectral_norm", "custom", "topology"],
)
def test_what_cannot_act_in_8_bits_is_refused(values, flag: str, why: str) -> None:
    assert refused(acting_precision="int8", **values) == (
        f"--acting_precision=int8: does not go with {flag}: {why}; leave one of them out"
    )
