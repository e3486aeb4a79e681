"""Exports of a real run, used as others use them: in processes that never see this project."""

import json
import pathlib
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest
from support import warm
from support.processes import Processes
from support.programs import ROOT, RUN_SECONDS

from ps_dqn.flags import run_folder
from ps_dqn.policy import loading

pytestmark = pytest.mark.slow

TRAINED = (
    *("--cluster=in_process", "--num_workers=1", "--hidden_sizes=16,16", "--jit_compile=none"),
    *("--num_envs_per_worker=8", "--local_updates=16", "--min_replay_size=200"),
    *("--eval_episodes=4", "--total_env_steps=3000", "--normalize_observations"),
)
# Each has inputs, and must find outputs.
PROGRAMS = {
    "keras": """
import keras
outputs = keras.models.load_model("model.keras")(inputs)
""",
    "savedmodel": """
import tensorflow as tf
asked = tf.saved_model.load("saved_model").signatures["serving_default"]
outputs = asked(observation=tf.constant(inputs["observation"]))
""",
    "litert": """
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter("model.tflite")
outputs = interpreter.get_signature_runner("serving_default")(**inputs)
assert "tensorflow" not in sys.modules
""",
    "onnx": """
import onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
names = [each.name for each in session.get_outputs()]
outputs = dict(zip(names, session.run(names, inputs)))
assert "tensorflow" not in sys.modules
""",
    "npz": """
sys.path.append(".")  # the program beside the weights
import numpy_network
outputs = numpy_network.Network("model.npz")(inputs["observation"])
assert not {"keras", "tensorflow", "gymnasium"} & sys.modules.keys()
""",
}
BEFORE = """
import sys
import numpy as np
data = np.load("observations.npz")
inputs = {"observation": data["observation"]}
"""
AFTER = """
assert not [name for name in sys.modules if name.split(".")[0] == "ps_dqn"]
# CartPole's actions are numbers of Q-values. Of two that are as good, another library, which adds
# up in another order, may find the other one the better.
rows = np.arange(len(data["action"]))
chosen = data["q_values"][rows, np.asarray(outputs["action"])]
same = np.isclose(chosen, data["q_values"][rows, data["action"]], rtol=1e-4, atol=1e-4)
print(len(same), int(same.sum()), sorted(outputs))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("exported") / "run"
    words = ("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *TRAINED)
    ended = warm.run_python(words, folder.parent)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


@pytest.mark.parametrize("form", PROGRAMS)
def test_a_file_is_enough(form: str, run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    words = ("-m", "ps_dqn.export", run, f"--format={form}", f"--output={tmp_path}")
    ended = warm.run_python(words, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert "1,000 of 1,000 actions as the run's own network" in ended.stdout
    # -I: neither this folder nor a variable brings the project in.
    fresh = subprocess.run(
        [sys.executable, "-I", "-c", BEFORE + PROGRAMS[form] + AFTER],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert fresh.returncode == 0, fresh.stderr
    assert fresh.stdout.splitlines()[-1] == "1000 1000 ['action', 'q_values']"


def test_serving_answers_as_the_policy_does(run: pathlib.Path, processes: Processes) -> None:
    served = processes.start(ROOT / "docs" / "serve.py", run, "0")
    address = served.line_with("acts in CartPole-v1").split()[0]

    def ask(question: Any) -> Any:
        body = json.dumps(question).encode()
        with urllib.request.urlopen(address, body, timeout=240) as answer:
            return json.load(answer)

    config, _ = run_folder.read(run)
    policy = loading.load(config, run)
    observations = np.random.default_rng(0).normal(size=(20, 4)).round(3)
    wanted = policy.act(observations).tolist()
    assert ask({"observation": observations.tolist()}) == {"action": wanted}
    assert ask({"observation": observations[3].tolist()}) == {"action": wanted[3]}
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask({"observation": [1, 2]})
    assert refused.value.code == 400
    assert "observation" in json.loads(refused.value.read())["error"]
    refused.value.close()
