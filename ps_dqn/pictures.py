"""Pictures in files, by Matplotlib: whatever else a user has set for windows and papers."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

BACKEND = "MPLBACKEND"


def load() -> None:
    """Imports what `figure` needs."""
    if "matplotlib" not in sys.modules:
        _import()
    import matplotlib.backends.backend_agg  # which saves a figure as a picture
    import matplotlib.figure  # noqa: F401


def _import() -> None:
    """Imports Matplotlib, which refuses a backend that there is not; here none is needed."""
    given = os.environ.pop(BACKEND, "")
    try:
        import matplotlib
    finally:
        if given:
            os.environ[BACKEND] = given
    if given:
        with contextlib.suppress(ValueError):
            matplotlib.rcParams["backend"] = given


@contextlib.contextmanager
def figure(width: float, height: float) -> Iterator[Any]:
    """Gives an empty one, to be drawn and saved in the block; its texts need no LaTeX.

    It comes without pyplot, which takes as long again to import.

    Args:
        width: in inches.
        height: likewise.
    """
    load()
    import matplotlib

    with matplotlib.rc_context({"text.usetex": False}):
        made = matplotlib.figure.Figure(figsize=(width, height), layout="constrained")
        matplotlib.backends.backend_agg.FigureCanvasAgg(made)
        yield made
