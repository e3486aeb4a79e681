"""The programs that made the documents' numbers still run, on little."""

import pathlib
import shlex

import pytest
from support.programs import ROOT, run_python
from support.tiers import tiered

BENCHMARKS = ROOT / "benchmarks"
# What makes each short. `OUT` is a folder of the test's.
SHORT = {
    "ablation.py": "--tasks=CartPole-v1 --without=nothing --seeds=1 --output=OUT/ablation.csv"
    " --total_env_steps=2000 --eval_period=500 --jit_compile=none",
    "all_reduce.py": "--workers=1,2 --vectors='70 KB' --turns=1 --results=OUT/rounds.csv",
    "cost_model.py": "docs/scaling-slow.csv --flagfile=flags/presets/cartpole.flags",
    "demonstrations.py": "--data=valley --seeds=1 --output=OUT/demonstrations.csv"
    " --total_env_steps=1000 --jit_compile=none",
    "dispatch.py": "--workers=1,2 --seconds=0.3 --rounds=1",
    "exports.py": "--networks=MinAtar --rounds=1 --seconds=0.05",
    "fault_table.py": "--scenarios=nothing --seeds=1 --steps=15000 --results=OUT/faults.csv",
    "faults.py": "--seconds=6 --period=3 --workers=1 --results=OUT/faults.csv",
    "learning.py": "--games=MinAtar/Breakout-v0 --algorithms=dqn --seeds=1 --output=OUT/games.csv"
    " --picture=OUT/games.png --total_env_steps=3000 --eval_period=1500 --jit_compile=none",
    "limit.py": "--preset=cartpole --rounds=1 --seconds=0.05 --env_steps=4000",
    "local_limit.py": "--rounds=1 --seconds=0.2 --env_steps=8000",
    "overlap.py": "--rounds=1 --total_env_steps=6000",
    "parameter_server.py": "--servers=1,2 --networks=MLP --rounds=1 --results=OUT/servers.csv"
    " --plot=OUT/servers.png",
    "peers": "--problems=CartPole-v1 --peers=ours --seeds=1 --times=0.1 --output=OUT/peers.csv"
    " --json=OUT/peers.json --picture=OUT/peers.png",
    "precision.py": "--networks='MLP 120-84' --rounds=1 --seconds=0.05",
    "replay.py": "--vectors=2048 --frames=256 --n_steps=3 --minibatches=2 --seconds=0.05",
    "resume.py": "--presets=cartpole --seeds=1 --times=0.03 --output=OUT/r.csv --picture=OUT/r.png",
    "rounds.py": "--workers=2 --seeds=1 --total_env_steps=4000 --results=OUT/rounds.csv",
    "scaling.py": "--workers=1 --seeds=1 --total_env_steps=90000 --results=OUT/scaling.csv"
    " --eval_period=500 --target_return=5"
    " --plot=OUT/scaling.png",
    "seed.py": "--rounds=1 --total_env_steps=8000 --num_envs=8 --jit_compile=none",
    "solve.py": "cartpole --seeds=1 --total_env_steps=4000 --eval_period=500 --target=5"
    " --target_return=inf --output=OUT/solved.csv",
    "vectorization.py": "--rounds=1 --seconds=0.05",
}

# Of each kind a short one.
OFTEN = (*("ablation.py", "cost_model.py", "exports.py", "peers"),)


def programs() -> set[str]:
    """Those that are called, not imported by others or by a run."""
    files = {path.name for path in BENCHMARKS.glob("*.py") if "ArgumentParser(" in path.read_text()}
    return files | {path.parent.name for path in BENCHMARKS.glob("*/__main__.py")}


def test_each_is_run_here() -> None:
    assert programs() == set(SHORT)


@pytest.mark.parametrize("name", tiered(SHORT, slow=OFTEN))
def test_it_runs(name: str, tmp_path: pathlib.Path) -> None:
    words = shlex.split(SHORT[name].replace("OUT", str(tmp_path)))
    ended = run_python([f"benchmarks/{name}", *words], ROOT, seconds=600)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    written = {word.partition("=")[2] for word in words if str(tmp_path) in word}
    assert written == {str(path) for path in tmp_path.iterdir()}
