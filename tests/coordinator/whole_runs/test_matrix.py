"""What can be put together trains; what cannot is refused with one line."""

import json

import numpy as np
import pytest
from support import matrix
from support.command_lines import parsed
from support.tiers import tiered

from ps_dqn import config as configuration
from ps_dqn.errors import UsageError
from ps_dqn.flags import experiment
from ps_dqn.run import checkpoints

UPDATES, UPDATES_OF_IMAGES = 200, 30
COVERING = matrix.covering()
OFTEN = 20  # of them, with each choice and two thirds of the pairs
LITTLE = (
    *("--total_env_steps=4000", "--update_period=16", "--num_envs_per_worker=8", "--batch_size=16"),
    *("--hidden_sizes=16", "--jit_compile=none", "--target_return=inf", "--seed=3"),
    *("--eval_period=1000000", "--eval_episodes=1", "--confirm_episodes=0"),
)


def refusal(mix: matrix.Mix) -> str:
    """Why it cannot be; no text where it can."""
    try:
        config = experiment.read(parsed(*matrix.flags(mix), *LITTLE))
        count = matrix.num_workers(mix)
        configuration.checks.check_workers(config, count, is_remote=False)
        config.shared_by(count)
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_every_topology_is_asked_for() -> None:
    [topology] = [field for field in configuration.fields() if field.name == "topology"]
    assert {*matrix.AXES["topology"]} == {*topology.metadata["choices"]}


@pytest.mark.slow
def test_what_goes_together_in_pairs_goes_together() -> None:
    possible = [mix for mix in matrix.mixes() if not matrix.refused(mix)]
    assert len(possible) > 400
    some = possible[::4]  # each takes a fifth of a second
    assert {mix: why for mix in some if (why := refusal(mix))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("mix", matrix.nearly(), ids="-".join)
def test_what_does_not_go_together_is_refused(mix: matrix.Mix) -> None:
    why = refusal(mix)
    assert len(why.splitlines()) == 1
    assert why.startswith("--")


@pytest.mark.parametrize(
    "mix",
    tiered([*COVERING, *matrix.MIXES_OF_IMAGES], slow=(*COVERING[:OFTEN], *matrix.MIXES_OF_IMAGES)),
    ids="-".join,
)
def test_what_goes_together_trains(coordinate, mix: matrix.Mix) -> None:
    if mix in matrix.MIXES_OF_IMAGES:
        pytest.importorskip("ale_py")
    of_images = mix in matrix.MIXES_OF_IMAGES
    less = ("--total_env_steps=700", "--batch_size=4") if of_images else ()
    folder, ended = coordinate("run", *matrix.flags(mix), *LITTLE, *less)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["updates"] >= (UPDATES_OF_IMAGES if of_images else UPDATES)
    state = checkpoints.load(max((folder / "checkpoints").glob("updates-*.npz"))).state
    assert np.isfinite(state.online).all()
    # The average has followed from where it began.
    assert 0 < np.abs(state.online - state.average).max() < 10
