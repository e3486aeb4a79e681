"""What is exported answers as the run's network does, whatever the environment and the network."""

import hashlib
import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support import kinds_of_runs
from support.tiers import tiered

from ps_dqn.environments import raw
from ps_dqn.errors import UsageError
from ps_dqn.export import agreement, exporting, formats, observations
from ps_dqn.export.exporting import Wanted
from ps_dqn.policy import greedy, loading
from ps_dqn.run.checkpoints import Checkpoints

# Each has what some format may lack.
HARD = (
    *("parts_and_images", "stacked_parts", "impala", "recurrent", "masks", "branching_grid"),
    *("buttons", "normalized", "iqn", "noisy", "hl_gauss", "nature", "a3c"),
)
USERS = "support.user_networks:mlp"


class Run:
    """A folder of a run, and what its exports say."""

    def __init__(self, kind: str, path: pathlib.Path, **values: Any):
        self.config = kinds_of_runs.config(kind, **values)
        self.folder = kinds_of_runs.folder(self.config, path / "run")
        self.output = path / "out"
        self.output.mkdir(parents=True)
        self.checkpoint = Checkpoints(self.folder / "checkpoints", keep=1).find("best")
        self.said: list[str] = []

    def export(self, form: str, **values: Any) -> int:
        asked = {"int8": "none", "num_observations": 60, "observations": None} | values
        wanted = Wanted(form=form, output=self.output, **asked)
        self.said.clear()
        return exporting.export(self.config, self.folder, self.checkpoint, wanted, self.said.append)

    def metadata(self) -> dict[str, Any]:
        return json.loads((self.output / "metadata.json").read_text())


@pytest.mark.parametrize("kind", tiered(HARD, slow=("recurrent", "masks", "iqn", "a3c")))
def test_all_formats_answer_alike(kind: str, tmp_path: pathlib.Path) -> None:
    run = Run(kind, tmp_path)
    policy = loading.load(run.config, run.folder)
    for form in sorted(formats.FORMATS.keys() - {*formats.OF_NUMPY}):
        assert run.export(form) == 0, run.said
        assert run.metadata()["agreement"]["same_actions"] == 60
    # A file that was left is as good as playing, and holds what the policy is asked of.
    saved = run.output / exporting.MET
    assert run.export("savedmodel", observations=saved) == 0
    assert run.said[1] == f"  60 observations of {saved}"
    with np.load(saved) as data:
        inputs = {name: data[name] for name in run.metadata()["inputs"]}
        wanted = {name: data[name] for name in ("action", "q_values", "logits") if name in data}
    found = {
        name: each.numpy()
        for name, each in policy._outputs(
            {name: tf.constant(x) for name, x in inputs.items()}
        ).items()
    }
    name = greedy.chosen_by(wanted)
    np.testing.assert_allclose(found[name], wanted[name], rtol=1e-3, atol=1e-4)
    assert (found["action"] == wanted["action"]).all()


def test_what_is_written_beside_it(tmp_path: pathlib.Path) -> None:
    run = Run("masks", tmp_path)
    assert run.export("keras") == 0
    output = run.output
    assert run.said[0] == "best.npz of 4,321 env steps, its average:"
    assert "60 of 60 actions as the run's own network" in run.said[3]
    assert run.said[4:] == [f"  {output}/observations.npz", f"  {output}/metadata.json"]
    found = run.metadata()
    assert found["inputs"] == {
        "observation": {"shape": [None, 4], "dtype": "float32"},
        "mask": {"shape": [None, 3], "dtype": "bool"},
    }
    assert found["outputs"]["action"] == {"shape": [None], "dtype": "int64"}
    assert found["interface"]["actions"]["values"] == [[2, 3, 4]]
    assert found["checkpoint"] == {
        **{"checkpoint": "best.npz", "env_steps": 4321, "updates": 6, "eval_return": 200.0}
    }
    assert found["versions"]["keras"]
    for name, digest in found["sha256"].items():
        assert hashlib.sha256((output / name).read_bytes()).hexdigest() == digest
    assert set(found["sha256"]) == {"model.keras", "observations.npz"}


@pytest.mark.parametrize(
    "kind",
    [
        *("grid", "c51", "qr_dqn", "noisy", "combinations", "a3c", "stacked_images", "nature"),
        pytest.param("impala", marks=pytest.mark.thorough),
    ],
)
def test_numpy_is_enough(kind: str, tmp_path: pathlib.Path) -> None:
    run = Run(kind, tmp_path)
    assert run.export("npz") == 0, run.said
    assert run.metadata()["agreement"]["same_actions"] == 60
    with np.load(run.output / "observations.npz") as data:
        wanted = {name: data[name][:5].tolist() for name in run.metadata()["outputs"]}
    program = (
        "import json, numpy, sys, numpy_network\n"
        "data = numpy.load('observations.npz')\n"
        "masks = data['mask'][:5] if 'mask' in data else None\n"
        "found = numpy_network.Network('model.npz')(data['observation'][:5], masks)\n"
        "print(json.dumps({name: each.tolist() for name, each in found.items()}))\n"
        "assert not {'ps_dqn', 'keras', 'tensorflow', 'gymnasium'} & sys.modules.keys()\n"
    )
    fresh = subprocess.run(
        [sys.executable, "-c", program],
        cwd=run.output,
        capture_output=True,
        text=True,
        check=False,
    )
    assert fresh.returncode == 0, fresh.stderr
    found = json.loads(fresh.stdout)
    assert found.keys() == wanted.keys()
    assert found["action"] == wanted["action"]
    chosen_by = greedy.chosen_by(wanted)
    np.testing.assert_allclose(found[chosen_by], wanted[chosen_by], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "more", "what"),
    [
        ("parts_and_images", {}, "observations of several parts"),
        ("branching", {}, "branches"),
        ("recurrent", {}, "a recurrent layer"),
        ("stacked_images", {"recurrent_size": 5}, "a recurrent layer"),
        ("iqn", {}, "EinsumDense, Transpose"),
        ("plain", {"network": USERS, "hidden_sizes": (128, 128)}, "Cast, Functional"),
    ],
)
def test_numpy_is_not_for_others(
    kind: str, more: dict[str, Any], what: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(UsageError, match=f"--format=npz: is for dense layers .* has {what}: say"):
        Run(kind, tmp_path, **more).export("npz")


def test_what_answers_differently_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("plain", tmp_path)
    right = formats.FORMATS["keras"]

    def read(path: pathlib.Path) -> formats.Answer:
        answer = right.read(path)
        return lambda inputs: answer({name: -x for name, x in inputs.items()})

    wrong = formats.Format(right.file, right.write, read)
    monkeypatch.setitem(formats.FORMATS, "keras", wrong)
    assert run.export("keras") == 1
    assert run.said[-1] == (
        f"error: {run.output}/model.keras does not answer as the run's network does: do not use it"
    )
    assert not (run.output / "metadata.json").exists()


# TensorFlow's converter uses what it warns of itself.
@pytest.mark.filterwarnings("ignore:(?s).*tf.lite.Interpreter is deprecated:UserWarning")
@pytest.mark.slow
def test_eight_bits_say_how_much_is_left(tmp_path: pathlib.Path) -> None:
    run = Run("wide", tmp_path)  # LiteRT leaves layers of less than 1,024 weights as they are
    sizes, same, off = {}, {}, {}
    for int8 in ("none", "dynamic", "full"):
        assert run.export("litert", int8=int8) == 0
        sizes[int8] = (run.output / "model.tflite").stat().st_size
        found = run.metadata()
        assert found["int8"] == int8
        same[int8] = found["agreement"]["same_actions"]
        said = f"read again: {same[int8]} of 60 actions as the run's own network"
        assert said in run.said[3]
        off[int8] = found["agreement"]["largest_difference"] / found["agreement"]["largest_value"]
    # Weights of 8 bits instead of 32; biases and what describes the network are as they were.
    assert max(sizes["dynamic"], sizes["full"]) < 0.6 * sizes["none"]
    assert off["none"] < 1e-5
    assert 1e-3 < off["dynamic"] < 0.02
    assert off["dynamic"] < off["full"] < 0.1
    assert same["none"] == 60
    assert same["dynamic"] > 55
    assert same["full"] > 40


@pytest.mark.parametrize(
    "kind", ["double_precision_parts", "one_of", "thing", "stacked_parts", "recurrent"]
)
def test_inputs_are_what_rows_were(kind: str, tmp_path: pathlib.Path) -> None:
    run = Run(kind, tmp_path)
    interface = loading.interface_of(run.config, run.folder)
    network = loading.network_of(run.config, interface, run.checkpoint)
    met = observations.play(run.config, interface, network, run.checkpoint.state.average, 20)
    assert len(met.rows) == len(met.states) == len(met.masks) == 20
    arrays = raw.of_rows(interface, met.rows)
    assert [each.name for each in raw.inputs(interface)] == list(arrays)
    assert (raw.rows_of(interface, arrays) == met.rows).all()


def test_ties_are_no_disagreement(tmp_path: pathlib.Path) -> None:
    run = Run("plain", tmp_path)
    interface = loading.interface_of(run.config, run.folder)
    q_values = np.float32([[1, 1, 0], [1, 0.5, 0]])
    met = observations.Met(np.zeros((2, 4)), np.zeros((2, 0)), np.ones((2, 0), np.bool_))
    wanted = {"action": np.array([2, 2]), "q_values": q_values}
    tie = {"action": np.array([3, 2]), "q_values": q_values}
    other = {"action": np.array([2, 3]), "q_values": q_values}
    assert agreement.compare(interface, met, wanted, tie).is_exact
    assert not agreement.compare(interface, met, wanted, other).is_exact
    off = {"action": wanted["action"], "q_values": q_values + 0.01}
    found = agreement.compare(interface, met, wanted, off)
    assert found.same_actions == 2
    assert not found.is_exact


def test_an_action_worth_less_is_none_of_a_tie(tmp_path: pathlib.Path) -> None:
    interface = loading.interface_of(*_of("plain", tmp_path))
    met = observations.Met(np.zeros((4, 4)), np.zeros((4, 0)), np.ones((4, 0), np.bool_))
    q_values = np.float32([[500, 499.96, -100]] * 4)
    wanted = {"action": np.full(4, 2), "q_values": q_values}
    found = {"action": np.array([2, 3, 4, 5]), "q_values": q_values}
    assert agreement.compare(interface, met, wanted, found).same_actions == 2


def test_an_action_that_is_not_allowed_is_none_of_a_tie(tmp_path: pathlib.Path) -> None:
    interface = loading.interface_of(*_of("masks", tmp_path))
    size = interface.spec.mask_size
    q_values, masks = np.zeros((2, size), np.float32), np.ones((2, size), np.bool_)
    masks[:, 0] = False
    met = observations.Met(np.zeros((2, 4)), np.zeros((2, 0)), masks)
    wanted = {"action": interface.actions.of(np.array([1, 1])), "q_values": q_values}
    found = {"action": interface.actions.of(np.array([2, 0])), "q_values": q_values}
    assert agreement.compare(interface, met, wanted, found).same_actions == 1


def test_each_part_of_an_action_must_be_as_good(tmp_path: pathlib.Path) -> None:
    interface = loading.interface_of(*_of("branching", tmp_path))
    first, second = interface.spec.branches
    values = [*[0.0] * first, 0.0, 10.0, *[0.0] * (second - 2)]
    q_values = np.float32([values] * 3)
    met = observations.Met(np.zeros((3, 4)), np.zeros((3, 0)), np.ones((3, 0), np.bool_))
    wanted = {"action": interface.actions.of(np.full(3, 1)), "q_values": q_values}
    numbers = np.array([1, second + 1, second])  # all as good; another of a tie; a worse part
    found = {"action": interface.actions.of(numbers), "q_values": q_values}
    assert agreement.compare(interface, met, wanted, found).same_actions == 2


def test_observations_of_something_else_are_refused(tmp_path: pathlib.Path) -> None:
    interface = loading.interface_of(*_of("masks", tmp_path / "one"))
    file = tmp_path / "met.npz"
    file.write_bytes(b"PK")
    with pytest.raises(UsageError, match=r"--observations=.*met\.npz: cannot be read"):
        observations.read(file, interface)
    alone = tmp_path / "alone.npy"
    np.save(alone, np.zeros((5, 4), np.float32))
    with pytest.raises(UsageError, match=r"alone\.npy: cannot be read"):
        observations.read(alone, interface)
    np.savez(file, observation=np.float32(0), mask=np.ones((5, 3)))
    with pytest.raises(UsageError, match="its arrays have not one row for each observation"):
        observations.read(file, interface)
    np.savez(file, observation=np.zeros((5, 4), np.float32))
    with pytest.raises(UsageError, match="has no array mask"):
        observations.read(file, interface)
    np.savez(file, observation=np.zeros((5, 3), np.float32), mask=np.ones((5, 3)))
    with pytest.raises(UsageError, match="is of another environment"):
        observations.read(file, interface)
    np.savez(file, observation=np.zeros((5, 4), np.float32), mask=np.ones((5, 3)))
    assert observations.read(file, interface).masks.all()


def test_without_the_environment_a_file_of_observations_is_asked_for(
    tmp_path: pathlib.Path,
) -> None:
    run = Run("plain", tmp_path)
    gone = kinds_of_runs.BASE | {"env_id": "no_such_module:Env"}
    run.config = type(run.config).from_values(gone)
    with pytest.raises(UsageError, match=r"no_such_module.*; or say --observations=FILE\.npz"):
        run.export("keras")


def _of(kind: str, path: pathlib.Path) -> tuple[Any, pathlib.Path]:
    run = Run(kind, path)
    return run.config, run.folder
