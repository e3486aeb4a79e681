"""What someone does who has the package and no clone: train, watch, export, load, plot."""

import os
import pathlib
import subprocess
import sys
import time

import pytest
from support.programs import ROOT, inherited_environment

ENVIRONMENT = '''
import gymnasium
import numpy as np


class Corridor(gymnasium.Env):
    """Walk to the right; every step costs."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (8,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self._seen(), {}

    def step(self, action):
        self.place, self.steps = max(self.place + 2 * int(action) - 1, 0), self.steps + 1
        there = self.place == 7
        return self._seen(), 10.0 if there else -0.1, there, self.steps == 40, {}

    def render(self):
        picture = np.zeros((32, 128, 3), np.uint8)
        picture[:, 16 * self.place : 16 * self.place + 16] = 255
        return picture

    def _seen(self):
        return np.eye(8, dtype=np.float32)[self.place]
'''
ELSEWHERE = """
import numpy, tensorflow
model = tensorflow.saved_model.load("out/saved_model")
serve = model.signatures["serving_default"]
answer = serve(observation=tensorflow.eye(8)[:7])
assert answer["action"].numpy().tolist() == [1] * 7, answer
print("loaded elsewhere")
"""
SHORT = (
    *("--env_id=corridor:Corridor", "--total_env_steps=6000", "--eval_period=2000"),
    *("--num_envs=8", "--min_replay_size=200", "--epsilon_decay_steps=50%", "--eval_episodes=4"),
)


@pytest.mark.slow
def test_from_an_installed_package_to_a_policy_at_work(tmp_path: pathlib.Path) -> None:
    package, folder = tmp_path / "package", tmp_path / "mine"
    folder.mkdir()
    (folder / "corridor.py").write_text(ENVIRONMENT)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, f"--target={package}", ROOT], check=True, capture_output=True)
    environment = inherited_environment() | {
        "PATH": os.pathsep.join([str(package / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(package),
        "COLUMNS": "200",
    }

    def run(*words: str) -> str:
        began = time.monotonic()
        ended = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        print(f"{time.monotonic() - began:.1f} s: {' '.join(words)}")
        assert ended.returncode == 0, f"{words}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    where = run(sys.executable, "-c", "import ps_dqn; print(ps_dqn.__file__)")
    assert where.startswith(str(package))
    for seed in range(2):
        said = run("ps-dqn", "train", *SHORT, f"--seed={seed}", f"--run_dir=runs/{seed}")
        assert "Finished" in said
    assert run("ps-dqn", "runs").count("corridor:Corridor") == 2
    assert "episode 1: return" in run("ps-dqn", "watch", "runs/0", "--video=film.gif")
    assert (folder / "film.gif").read_bytes()[:3] == b"GIF"
    said = run("ps-dqn", "export", "runs/0", "--format=savedmodel", "--output=out")
    assert "1,000 of 1,000 actions" in said
    environment.pop("PYTHONPATH")
    assert "loaded elsewhere" in run(sys.executable, "-I", "-c", ELSEWHERE)
    environment["PYTHONPATH"] = str(package)
    acts = "from ps_dqn import load; import numpy; print(load('runs/0').act(numpy.eye(8)[3]))"
    assert run(sys.executable, "-c", acts).strip() == "1"
    assert "2 seeds" in run("ps-dqn", "plot", "runs", "--output=scores.png")
    assert (folder / "scores.png").stat().st_size > 10_000
    assert "bottleneck" in run("ps-dqn", "doctor", "runs/0")
