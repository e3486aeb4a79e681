"""`load` in somebody's own program, whatever that or its user has set of Keras."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from support import kinds_of_runs
from support.programs import run_python
from support.tiers import tiered

from ps_dqn.config import Config
from ps_dqn.flags import experiment, run_folder
from ps_dqn.policy import greedy, loading
from ps_dqn.run import directory

SETTINGS = {"image_data_format": "channels_first", "floatx": "float16", "epsilon": 0.1}
PROGRAM = """
import json, numpy as np
{first}
import ps_dqn
policy = ps_dqn.load("run")
with np.load("seen.npz") as data:
    found = policy.outputs(dict(data), None, False)
np.savez("found.npz", **found)
from keras import config
print(config.dtype_policy().name)
print(config.backend(), config.image_data_format(), config.floatx(), config.epsilon())
"""
POLICY = "import keras; keras.config.set_dtype_policy('mixed_bfloat16')"
WAYS = [("recurrent", ""), ("plain", ""), ("plain", "import keras"), ("recurrent", POLICY)]
KINDS: dict[str, dict[str, Any]] = {
    "recurrent": {},
    "plain": {"env_kwargs": kinds_of_runs.shown("image"), "network": "minatar"},
}


def write_flags(config: Config, folder: pathlib.Path) -> None:
    values = run_folder.new_flags("read")
    experiment.assign(values, config)
    (folder / directory.FLAGFILE).write_text(run_folder.as_flagfile(values))


@pytest.mark.parametrize("way", tiered(WAYS, quick=WAYS[2:], slow=WAYS[:2]), ids=" ".join)
def test_a_policy_answers_as_it_does_elsewhere(
    way: tuple[str, str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, first = way
    config = kinds_of_runs.config(kind, **KINDS[kind])
    folder = kinds_of_runs.folder(config, tmp_path / "run")
    write_flags(config, folder)
    policy, rng = loading.load(config, folder), np.random.default_rng(3)
    seen = {
        each.name: rng.integers(0, 2, (5, *each.shape[1:])).astype(each.dtype)
        for each in policy.network.inputs
    }
    np.savez(tmp_path / "seen.npz", **seen)
    wanted = policy.outputs(seen, None, False)
    (tmp_path / "keras.json").write_text(json.dumps(SETTINGS))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))

    done = run_python(["-c", PROGRAM.format(first=first)], tmp_path)

    assert done.returncode == 0, done.stderr
    # The user's own program goes on with what was set for it.
    policy, others = done.stdout.splitlines()[-2:]
    assert others == "tensorflow channels_first float16 0.1"
    assert policy == ("mixed_bfloat16" if first == POLICY else "float16")
    with np.load(tmp_path / "found.npz") as found:
        name = greedy.chosen_by(wanted)
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6)


def test_another_backend_is_refused(tmp_path: pathlib.Path) -> None:
    config = kinds_of_runs.config("plain")
    folder = kinds_of_runs.folder(config, tmp_path / "run")
    write_flags(config, folder)
    program = """
import sys, types
class config:
    backend = staticmethod(lambda: "jax")
sys.modules["keras"] = types.SimpleNamespace(config=config)
import ps_dqn
try:
    ps_dqn.load("run")
except ps_dqn.UsageError as error:
    print(error)
"""
    done = run_python(["-c", program], tmp_path)
    assert done.stdout == (
        "Keras was imported with the backend jax, and networks here are TensorFlow's: set "
        "KERAS_BACKEND=tensorflow before it is imported\n"
    ), done.stderr
