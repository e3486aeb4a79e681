"""The tables of `benchmarks/learning.py`, of runs that are there already."""

import csv
import pathlib

from support.programs import ROOT, run_python

COLUMNS = ("game", "algorithm", "seed", "env_steps", "seconds", "eval_return", "train_return")
LEFT_OUT = "{} is not in the table of all games: dqn's mean score there, 0, is no unit"


def printed(folder: pathlib.Path, scores: dict[tuple[str, str], list[float]]) -> list[str]:
    """What follows the first table, of the scores of each game's and algorithm's runs."""
    path = folder / "games.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for (game, algorithm), runs in scores.items():
            for seed, score in enumerate(runs):
                writer.writerow((game, algorithm, seed, 1000, 1.0, score, score))
    games, algorithms = (",".join(dict.fromkeys(names)) for names in zip(*scores, strict=True))
    words = [f"--games={games}", f"--algorithms={algorithms}", "--seeds=2", f"--output={path}"]
    ended = run_python(["benchmarks/learning.py", *words], ROOT, seconds=120)
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr
    return ended.stdout.partition("\n\n")[2].splitlines()


def test_scores_of_all_games_are_multiples_of_the_first_algorithms(tmp_path: pathlib.Path) -> None:
    scores = {
        ("A", "dqn"): [1.0, 3.0],
        ("A", "pqn"): [4.0, 4.0],
        ("B", "dqn"): [10.0, 10.0],
        ("B", "pqn"): [20.0, 20.0],
    }
    heading, _, first, second = printed(tmp_path, scores)
    assert heading == "| 2 games | in units of dqn's [95%] |"
    assert first.startswith("| dqn | 1.00 [")
    assert second == "| pqn | 2.00 [2.00, 2.00] |"


def test_a_game_in_which_the_first_algorithm_has_nothing_is_left_out(
    tmp_path: pathlib.Path,
) -> None:
    scores = {
        ("A", "dqn"): [10.0, 10.0],
        ("A", "pqn"): [20.0, 20.0],
        ("Freeway", "dqn"): [0.0, 0.0],
        ("Freeway", "pqn"): [5.0, 7.0],
    }
    told, blank, heading, _, *rows = printed(tmp_path, scores)
    assert (told, blank) == (LEFT_OUT.format("Freeway"), "")
    assert heading == "| 1 game | in units of dqn's [95%] |"
    assert rows == ["| dqn | 1.00 [1.00, 1.00] |", "| pqn | 2.00 [2.00, 2.00] |"]


def test_without_a_unit_in_any_game_there_is_no_table_of_all(tmp_path: pathlib.Path) -> None:
    scores = {(game, name): [0.0, 0.0] for game in ("A", "B") for name in ("dqn", "pqn")}
    assert printed(tmp_path, scores) == [LEFT_OUT.format("A"), "", LEFT_OUT.format("B")]
