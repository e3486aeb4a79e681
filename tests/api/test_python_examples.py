"""The examples of docs/python.md, as people run them: the notebook, and tuning with Optuna."""

import importlib.util
import json
import pathlib
import re

import nbclient
import nbformat
import optuna
import pytest
from support.programs import ROOT

NOTEBOOK = ROOT / "docs" / "python.ipynb"
TUNE = ROOT / "docs" / "tune.py"


def test_the_notebook_has_outputs_and_nothing_of_a_machine() -> None:
    text = NOTEBOOK.read_text()
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    shown = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert not [output for output in shown if output["output_type"] == "error"]
    assert re.findall(r"[\"' ](?:/home|/root|/tmp|/work|/usr)/", text) == []


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOK, 4)
    # The same, and shorter.
    [training] = [cell for cell in notebook.cells if "60_000" in cell.source]
    training.source = training.source.replace("60_000", "6_000")
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    *_, last = notebook.cells
    shown = last.outputs[-1]["data"]["text/plain"]
    assert re.fullmatch(r"<Run Corridor-.*: stopped, best evaluation 0\.9>", shown)
    assert len(list(tmp_path.glob("runs/*/summary.json"))) == 2


class PruneSecond(optuna.pruners.BasePruner):
    def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
        return trial.number == 1


@pytest.mark.slow
def test_trials_are_tuned_and_pruned(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("tune", TUNE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    study = module.tune(
        3,
        PruneSecond(),
        num_workers=1,
        seed=7,
        total_env_steps=2000,
        hidden_sizes=(16, 16),
        jit_compile="none",
        eval_period=1000,
        eval_episodes=1,
    )
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert [len(trial.intermediate_values) for trial in study.trials][1] == 1
    assert study.best_value == max(study.trials[0].value, study.trials[2].value)
