"""What TensorFlow uses where it is there is not imported with it, and can be imported after it."""

import pathlib
import sys

import pytest
from support.programs import run_python

from ps_dqn.run import optional_imports

PROGRAM = """
import importlib.util, sys
from ps_dqn.run import optional_imports
with optional_imports.hidden():
    import ps_dqn.coordinator.reconnect
assert "tensorflow" in sys.modules and "keras" in sys.modules
print([name for name in optional_imports.NAMES if name in sys.modules])
for name in filter(importlib.util.find_spec, optional_imports.NAMES):
    importlib.import_module(name)
import matplotlib.pyplot
print("and now they are there")
"""


def test_tasks_start_without_packages_that_only_keras_would_use(tmp_path: pathlib.Path) -> None:
    (tmp_path / "jax").mkdir()  # a folder of whatever else; to Python it is a package
    done = run_python(["-c", PROGRAM], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[]", "and now they are there"]


def test_what_was_imported_before_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", sys)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with optional_imports.hidden():
        import pandas

        assert pandas is sys
        with pytest.raises(ImportError):
            import IPython  # noqa: F401
    assert sys.modules["pandas"] is sys
    assert "IPython" not in sys.modules
