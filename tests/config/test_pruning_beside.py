"""Pruning: its schedule by hand, and what does not go with it."""

import math
from typing import Any

import pytest
from support.refusals import refused

from ps_dqn.config import Config, Pruning

GOOD = {"pruning": "magnitude"}
GROWS = {"pruning": "rigl"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"sparsity": 0.5},
            "--sparsity=0.5: has no effect without --pruning; leave it out (its default is 0.9)",
        ),
        (
            {**GOOD, "rigl_fraction": 0.5},
            "--rigl_fraction=0.5: has no effect without --pruning=rigl; leave it out (its default "
            "is 0.3)",
        ),
        ({**GOOD, "sparsity": 1.0}, "--sparsity=1.0: must be 0.999 or less"),
        (
            {**GOOD, "pruning_end": "110%"},
            "--pruning_end=110%: must be a whole number of environment steps, or a share of the "
            "run above 0% and up to 100%, like 10%",
        ),
        (
            {**GOOD, "pruning_start": "70%"},
            "--pruning_end=60%: must leave room for --pruning_changes=30 after "
            "--pruning_start=70%, and be in the run of --total_env_steps=500000; change one of "
            "them",
        ),
        (
            {**GOOD, "pruning_end": 600_000},
            "--pruning_end=600000: must leave room for --pruning_changes=30 after "
            "--pruning_start=10%, and be in the run of --total_env_steps=500000; change one of "
            "them",
        ),
        (
            {**GOOD, "reset_period": 1000},
            "--pruning=magnitude: does not go with --reset_period=1000: a reset would draw weights "
            "that the mask has removed; leave one of them out",
        ),
        (
            {**GROWS, "noisy": True},
            "--pruning=rigl: does not go with --noisy=true: the deviations of its noise would keep "
            "removed weights alive; leave one of them out",
        ),
        (
            {**GOOD, "strategy": "all_reduce", "local_updates": 1},
            "--pruning=magnitude: does not go with --strategy=all_reduce: the parameter servers "
            "keep the mask; leave one of them out",
        ),
        (
            {**GROWS, "push_top_k": 0.1},
            "--pruning=rigl: does not go with --push_top_k=0.1: where to grow is known by all "
            "gradients; leave one of them out",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(values: dict[str, Any], said: str) -> None:
    assert refused(**values) == said


def test_changes_come_at_equal_distances() -> None:
    options = Pruning(pruning="magnitude", pruning_start=100, pruning_end="50%", pruning_changes=3)
    assert options.bounds(800) == (100, 400)
    wanted = {0: 0, 100: 0, 199: 0, 200: 1, 299: 1, 300: 2, 399: 2, 400: 3, 401: 3, 800: 3}
    assert {made: options.number(made, 800) for made in wanted} == wanted


def test_sparsity_grows_as_zhu_and_gupta_have_it() -> None:
    options = Pruning(pruning="magnitude", pruning_changes=4)
    # 1 - (1 - t)^3 at t of 0, 1/4, 1/2, 3/4 and 1.
    assert [options.share(n) for n in range(5)] == pytest.approx(
        [0, 1 - 27 / 64, 7 / 8, 63 / 64, 1]
    )


def test_rigl_exchanges_less_and_less_along_a_cosine() -> None:
    options = Pruning(pruning="rigl", pruning_changes=4, rigl_fraction=0.4)
    half = math.sqrt(0.5)
    wanted = [0.4, 0.2 * (1 + half), 0.2, 0.2 * (1 - half)]
    assert [options.fraction(n) for n in range(1, 5)] == pytest.approx(wanted)


def test_evaluations_count_once_all_is_pruned() -> None:
    def first(**values: Any) -> int:
        config = Config.from_values({"total_env_steps": 1000, **values})
        return config.pruning.judged_from(config.run.total_env_steps)

    assert first() == first(pruning="rigl") == 0
    assert first(pruning="magnitude", pruning_end="70%") == 700
