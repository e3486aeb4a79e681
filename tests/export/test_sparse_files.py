"""Files for NumPy without the zeros of a network that was pruned."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
from support import kinds_of_runs

from ps_dqn.export import exporting, numpy_file
from ps_dqn.export.exporting import Wanted
from ps_dqn.policy import loading
from ps_dqn.policy.numpy_network import Network
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints


def pruned(folder: pathlib.Path, config, share: float) -> Checkpoint:
    """The best checkpoint, only a share of whose weights is left."""
    checkpoint = Checkpoints(folder / "checkpoints", keep=1).find("best")
    network = loading.network_of(config, loading.interface_of(config, folder), checkpoint)
    average, rng = checkpoint.state.average.copy(), np.random.default_rng(3)
    for kernel in network.kernels.values():
        average[kernel] *= rng.random(kernel.stop - kernel.start) < share
    return dataclasses.replace(
        checkpoint, state=dataclasses.replace(checkpoint.state, average=average)
    )


@pytest.mark.parametrize("kind", ["qr_dqn", "grid", "stacked_images", "nature"])
def test_it_answers_as_the_whole_file_does_and_is_smaller(
    kind: str, tmp_path: pathlib.Path
) -> None:
    config = kinds_of_runs.config(kind)
    folder = kinds_of_runs.folder(config, tmp_path / "run")
    checkpoint, found, sizes = pruned(folder, config, 0.05), {}, {}
    for form in ("npz", "sparse"):
        output, said = tmp_path / form, []
        output.mkdir()
        wanted = Wanted(form, "none", output, 60, None)
        assert exporting.export(config, folder, checkpoint, wanted, said.append) == 0, said
        written = json.loads((output / "metadata.json").read_text())
        assert written["agreement"]["same_actions"] == 60
        with np.load(output / "observations.npz") as data:
            observations = data["observation"]
        found[form] = Network(str(output / "model.npz")).values(observations)
        with np.load(output / "model.npz") as data:
            sizes[form] = sum(data[name].nbytes for name in data.files if "kernel" in name)
    np.testing.assert_array_equal(found["sparse"], found["npz"])
    # 5 % of the numbers, and a bit for each: 1 / 20 + 1 / 32; a shape beside each.
    assert sizes["sparse"] < 0.15 * sizes["npz"]


def test_what_would_be_no_smaller_stays_as_it_is() -> None:
    whole = np.ones((3, 5), np.float32)
    assert list(numpy_file.sparse("dense/kernel", whole)) == ["dense/kernel"]
    for name, others in (
        ("actions", np.zeros((9, 9), np.float32)),
        ("clip/constant", np.zeros((), np.float32)),
        ("dense/bias", np.zeros(100, np.float32)),
    ):
        assert list(numpy_file.sparse(name, others)) == [name]
    whole[0] = 0
    found = numpy_file.sparse("dense/kernel", whole)
    assert {name: each.tolist() for name, each in found.items()} == {
        "dense/kernel": [1.0] * 10,
        "dense/kernel.bits": [0b00000111, 0b11111110],
        "dense/kernel.shape": [3, 5],
    }
