"""Problems in units of their own are learned by the defaults, as well as their rules do them."""

import importlib
import json

import pytest
from support.problems.playing import played
from support.tiers import tiered

# Of the way from chance to the rule.
ENOUGH = 0.95


@pytest.mark.parametrize(
    "name", tiered(["Room", "Crossing", "Fridge", "Swing", "Keys"], slow=("Room", "Keys"))
)
def test_the_defaults_learn_what_the_rule_does(coordinate, name: str) -> None:
    module = f"support.problems.{name.lower()}"
    problem = getattr(importlib.import_module(module), name)()
    rule, chance = played(problem, follows_rule=True), played(problem, follows_rule=False)
    wanted = chance + ENOUGH * (rule - chance)

    folder, ended = coordinate(
        name,
        *(f"--env_id={module}:{name}", f"--target_return={wanted}", "--total_env_steps=100000"),
        seconds=900,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    best = json.loads((folder / "summary.json").read_text())["best_eval_return"]
    assert best >= wanted, (best, rule, chance)
