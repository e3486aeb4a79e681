"""The pictures of the documents are drawn from the numbers beside them, and readable alone."""

import pathlib
import re
import shlex

import pytest
from support.programs import ROOT, run_python

# Nothing is measured. `OUT` is a folder of the test's.
GAMES = ("Breakout", "SpaceInvaders", "Asterix", "Freeway", "Seaquest")
DRAWN = {
    "minatar": "benchmarks/learning.py --seeds=0 --output=docs/minatar.csv --picture=OUT/it.svg"
    " --games=MinAtar/SpaceInvaders-v0,MinAtar/Breakout-v0",
    "minatar500": "benchmarks/learning.py --seeds=0 --output=docs/minatar500.csv"
    " --picture=OUT/it.svg --algorithms=dqn,pqn,munchausen_iqn,rainbow --games="
    + ",".join(f"MinAtar/{game}-v0" for game in GAMES),
    "parameter-server": "benchmarks/parameter_server.py --rounds=0 --plot=OUT/it.svg"
    " --results=docs/parameter-server.csv",
    "performance": "benchmarks/peers --seeds=0 --output=docs/performance.csv --json=OUT/it.json"
    " --picture=OUT/it.svg",
    "performance-rates": "benchmarks/peers --rates --seeds=0 --output=docs/performance-rates.csv"
    " --json=OUT/it.json --picture=OUT/it.svg",
    "scaling": "benchmarks/scaling.py --seeds=0 --results=docs/scaling-slow.csv --plot=OUT/it.svg",
}


@pytest.mark.parametrize("name", DRAWN)
def test_numbers_are_written_out_with_their_thousands_apart(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (ROOT / "docs" / f"{name}.png").exists()
    settings = tmp_path / "matplotlibrc"
    settings.write_text("svg.fonttype: none\n")  # texts stay texts
    monkeypatch.setenv("MATPLOTLIBRC", str(settings))
    ended = run_python(shlex.split(DRAWN[name].replace("OUT", str(tmp_path))), ROOT)
    assert ended.returncode == 0, ended.stderr
    texts = re.findall(r"<text[^>]*>(.*?)</text>", (tmp_path / "it.svg").read_text(), re.DOTALL)
    numbers = [text for text in texts if re.fullmatch(r"[\d.,e]+", text)]
    assert len(numbers) > 2
    # No power of ten or of two, which is a text in parts.
    assert not [text for text in texts if "<tspan" in text]
    assert not [text for text in numbers if re.search(r"\d{4}|e", text)]


@pytest.mark.parametrize("name", ["minatar", "servers", "slow"])
def test_results_of_scaling_are_read_by_the_program_that_made_them(name: str) -> None:
    results = f"--results=docs/scaling-{name}.csv"
    ended = run_python(["benchmarks/scaling.py", "--seeds=0", results], ROOT)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("\n") > 2
