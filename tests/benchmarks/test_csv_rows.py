"""The file that a benchmark goes on with."""

import csv_rows
import pytest


def test_rows_are_read_again(tmp_path) -> None:
    output = tmp_path / "rows.csv"
    assert csv_rows.read(None, ["preset"]) == csv_rows.read(output, ["preset"]) == []
    row = {"preset": "dqn,acrobot", "seed": "3"}
    for _ in range(2):
        csv_rows.append(output, [row])
    assert csv_rows.read(output, ["preset", "seed"]) == [row, row]


@pytest.mark.parametrize("columns", [["preset"], ["seed", "preset"], ["preset", "seed", "updates"]])
def test_a_file_of_other_columns_is_refused(columns: list[str], tmp_path) -> None:
    output = tmp_path / "rows.csv"
    csv_rows.append(output, [{"preset": "dqn", "seed": 3}])
    with pytest.raises(SystemExit, match="its columns are not those of this program"):
        csv_rows.read(output, columns)
