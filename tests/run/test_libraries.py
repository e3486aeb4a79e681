"""What libraries are told before they are loaded."""

import json
import os
import pathlib

import pytest
from support.programs import run_python
from support.tiers import tiered

from ps_dqn.run import libraries

PROGRAM = """
from ps_dqn.run import libraries, optional_imports
libraries.set_up()
with optional_imports.hidden():
    import ps_dqn.networks
from keras import config
print(config.backend(), config.image_data_format(), config.floatx(), config.epsilon())
"""


def test_what_a_person_has_set_stays(monkeypatch) -> None:
    monkeypatch.setattr("os.environ", {"OPENBLAS_NUM_THREADS": "4"})
    libraries.set_up()
    assert os.environ == {
        "OPENBLAS_NUM_THREADS": "4",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "KERAS_BACKEND": "tensorflow",
    }


@pytest.mark.parametrize("backend", tiered(["jax", ""], quick=("jax",), slow=("",)))
def test_keras_is_not_as_another_project_has_set_it(
    backend: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"backend": "torch", "image_data_format": "channels_first", "floatx": "float16"}
    (tmp_path / "keras.json").write_text(json.dumps(settings | {"epsilon": 0.1}))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", backend)
    done = run_python(["-c", PROGRAM], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "tensorflow channels_last float32 1e-07"
