"""When a run that goes on was solved, and whether it stayed so."""

import solve


def at(*returns: float) -> list[tuple[float, float]]:
    """Evaluations every 100 env steps."""
    return [(100.0 * i, value) for i, value in enumerate(returns, 1)]


def test_three_in_a_row_solve_it() -> None:
    assert solve.judged(at(5, 5, 4, 5, 5), target=5) == {}
    found = solve.judged(at(4, 5, 6, 5), target=5)
    assert found == {"solved_env_steps": 400, "later": 0, "later_below": 0}


def test_what_comes_until_twice_as_far_is_looked_at() -> None:
    found = solve.judged(at(5, 5, 5, 6, 4, 3, 0, 0), target=5)
    assert found == {"solved_env_steps": 300, "later": 3, "later_below": 2}
