"""The small problems of the docs' tables: they are environments, and their rules beat chance."""

import pytest
from gymnasium.utils.env_checker import check_env
from support.problems.crossing import Crossing
from support.problems.fridge import Fridge
from support.problems.keys import Keys
from support.problems.playing import played
from support.problems.room import Room
from support.problems.swing import Swing
from support.problems.workshop import Workshop

# What the rule is worth, an episode, to within what 30 episodes tell.
WORTH = {
    Room: (-100, -65),
    Crossing: (-140, -105),
    Workshop: (-14, -4),
    Fridge: (5600, 5900),
    Swing: (-11000, -6000),
    Keys: (96, 103),
}


@pytest.mark.parametrize("problem", WORTH, ids=lambda problem: problem.__name__)
def test_the_rule_is_worth_what_the_docs_say_and_more_than_chance(problem: type) -> None:
    low, high = WORTH[problem]
    worth = played(problem(), follows_rule=True)
    assert low < worth < high
    by_chance = played(problem(), follows_rule=False)
    assert worth - by_chance > abs(by_chance) / 2


@pytest.mark.parametrize("problem", WORTH, ids=lambda problem: problem.__name__)
def test_it_is_an_environment_as_gymnasium_wants_it(problem: type) -> None:
    check_env(problem(), skip_render_check=True)
