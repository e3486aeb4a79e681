"""The worked example of docs/your-environment.md: its environment and the rules to beat."""

import importlib.util
import pathlib
import types

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

FILE = pathlib.Path(__file__).parents[1] / "docs" / "inventory.py"


@pytest.fixture(scope="module")
def inventory() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("inventory", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shop_is_an_environment_as_gymnasium_wants_it(inventory: types.ModuleType) -> None:
    check_env(inventory.Shop(), skip_render_check=True)


def test_an_order_arrives_two_evenings_later_and_is_paid_for(inventory: types.ModuleType) -> None:
    shop = inventory.Shop(season=0.0)  # nobody buys
    shop.reset(seed=0)
    stock, rewards = [], []
    for action in (5, 0, 0):
        _, reward, *_ = shop.step(action)
        stock.append(shop.stock)
        rewards.append(reward)
    assert stock == [56, 72, 112]
    kept = [0.35 * each for each in stock]
    assert rewards == pytest.approx([-(kept[0] + 12) / 10, -kept[1] / 10, -kept[2] / 10])


def test_the_rules_are_worth_what_the_page_says(inventory: types.ModuleType) -> None:
    page = FILE.with_name("your-environment.md").read_text()
    fixed, days = inventory.play(lambda _: 72), inventory.play(lambda shop: 1.2 * shop.expected())
    assert f"order up to 72: {fixed:.1f} a season" in page
    assert f"order up to 1.2 times what three days need: {days:.1f} a season" in page
    assert np.isfinite([fixed, days]).all()
