"""Every algorithm goes with every problem, and does what was measured."""

import itertools

import pytest
from support.command_lines import parsed

from ps_dqn.config import Config
from ps_dqn.coordinator.checks import atoms
from ps_dqn.flags import experiment, preset

PROBLEMS = [name for name in preset.all_names() if preset.is_problem(name)]
ALGORITHMS = [name for name in preset.all_names() if name not in PROBLEMS]
# What docs/learning.md measured on CartPole: n_step, and the step size, its end and its decay.
MEASURED = {
    "dqn": (1, 2e-3, 3e-4, 150_000),
    "double_dqn": (1, 2e-3, 3e-4, 150_000),
    "rainbow": (10, 2e-3, 3e-4, 150_000),
    "hl_gauss": (10, 2e-3, 3e-4, 150_000),
    "qr_dqn": (3, 2e-3, 3e-4, 150_000),
    "iqn": (3, 2e-3, 3e-4, 150_000),
    "munchausen_iqn": (3, 2e-3, 3e-4, 150_000),
    "r2d2": (5, 2e-3, 1e-4, 300_000),
    "pqn": (1, 5e-3, 3e-4, 300_000),
    "a3c": (1, 4e-3, 3e-4, 150_000),
    "gorila": (10, 2e-3, 2e-4, 150_000),
    "ape_x": (10, 4e-3, 3e-4, 150_000),
    "seed": (10, 4e-3, 3e-4, 150_000),
}
# Of an algorithm: these are a problem's.
OF_PROBLEMS = {
    *("env_id", "env_module", "env_kwargs", "gamma", "v_min", "v_max", "target_return"),
    *("total_env_steps", "learning_rate", "learning_rate_end", "learning_rate_decay_steps"),
    *("epsilon_decay_steps", "eval_period", "hidden_sizes", "network", "replay_capacity"),
}
# Of a problem, but for those that are published or meant with an algorithm of their own.
OF_ALGORITHMS = {
    *("value_distribution", "dueling", "noisy", "recurrent_size", "replay", "munchausen"),
    *("local_updates", "trace_lambda", "priority_alpha"),
}


def config(*names: str) -> Config:
    return experiment.read(parsed(f"--preset={','.join(names)}"))


def flags_of(name: str) -> set[str]:
    lines = (preset.PRESETS / f"{name}.flags").read_text().splitlines()
    return {line[2:].partition("=")[0] for line in lines if line.startswith("--")}


def test_there_are_both_kinds() -> None:
    assert len(ALGORITHMS) >= 10
    assert {*PROBLEMS} >= {"cartpole", "acrobot", "mountaincar", "lunarlander", "atari", "minatar"}
    assert MEASURED.keys() == {*ALGORITHMS}


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    list(itertools.product(ALGORITHMS, [p for p in PROBLEMS if p not in preset.WHOLE])),
)
def test_every_algorithm_goes_with_every_problem(algorithm: str, problem: str) -> None:
    found = config(algorithm, problem)
    assert found == config(problem, algorithm)
    found.shared_by(2)
    assert atoms.notes(found) == []
    # Nothing of what makes the algorithm is gone, nor which problem it is.
    alone = experiment.read(parsed(f"--preset={algorithm}", "--env_id=Other-v0"))
    assert found.value.value_distribution == alone.value.value_distribution
    assert found.replay.replay == alone.replay.replay
    assert found.value.double_dqn == alone.value.double_dqn or algorithm == "gorila"
    assert found.environment.env_id == config(problem).environment.env_id
    pair = preset.PAIRS / f"{problem}+{algorithm}.flags"
    if not (pair.exists() and "--gamma=" in pair.read_text()):  # measured with another horizon
        assert found.learning.gamma == config(problem).learning.gamma


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_says_nothing_of_problems(algorithm: str) -> None:
    assert not flags_of(algorithm) & OF_PROBLEMS


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name not in preset.WHOLE])
def test_a_problem_says_nothing_of_algorithms(problem: str) -> None:
    assert not flags_of(problem) & OF_ALGORITHMS
    assert {"v_min", "v_max"} <= flags_of(problem)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_on_cartpole_it_is_what_was_measured(algorithm: str) -> None:
    found = config(algorithm)
    learning = found.learning
    assert (
        learning.n_step,
        learning.learning_rate,
        learning.learning_rate_end,
        learning.learning_rate_decay_steps,
    ) == MEASURED[algorithm]
    eval_period = 2_500 if algorithm == "hl_gauss" else 5_000
    assert (learning.gamma, found.run.eval_period, found.run.total_env_steps) == (
        *(0.98, eval_period, 500_000),
    )
    if found.value.value_distribution in ("c51", "hl_gauss"):
        assert (found.value.v_min, found.value.v_max) == (0, 50)


def test_every_pair_that_was_measured_is_of_presets() -> None:
    paths = list(preset.PAIRS.glob("*"))
    assert paths
    for path in paths:
        problem, plus, algorithm = path.stem.partition("+")
        assert plus
        assert problem in PROBLEMS
        assert algorithm in ALGORITHMS


def test_a_pair_of_the_problem_that_counts() -> None:
    assert config("dqn", "cartpole", "lunarlander").learning.learning_rate == 1e-3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--value_distribution=c51"],
            "c51's atoms reach from --v_min=-10 to --v_max=10, and discounted returns of "
            "CartPole-v1 from 1 to 99.34 (--gamma=0.99): say a --v_min and a --v_max around those",
        ),
        (["--value_distribution=hl_gauss", "--env_id=LunarLander-v3"], "from -100 to 100"),
        (["--preset=rainbow", "--v_min=2"], "reach from --v_min=2 to --v_max=50"),
        (["--preset=rainbow,acrobot", "--v_max=-5"], "from -99.34 to -1"),
        (["--preset=rainbow", "--gamma=1"], "from 1 to 500"),
        (["--preset=rainbow", "--reward_clip=0.01"], None),
        (["--preset=dqn", "--gamma=1"], None),
        (["--value_distribution=c51", "--env_id=Taxi-v3"], None),
        (["--value_distribution=c51", '--env_kwargs={"sutton_barto_reward": true}'], None),
        (["--value_distribution=hl_gauss", "--normalize_returns"], None),
    ],
)
def test_atoms_that_surely_do_not_span_returns_are_told_of(
    words: list[str], says: str | None
) -> None:
    found = atoms.notes(experiment.read(parsed(*words)))
    assert len(found) == (says is not None)
    assert says is None or says in found[0]
