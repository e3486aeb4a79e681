"""The files that a film may be written to; they are checked before TensorFlow is imported."""

import pathlib

from ps_dqn.environments import rendering
from ps_dqn.errors import UsageError
from ps_dqn.evaluator.preview import SUFFIX
from ps_dqn.run import outputs

FORMATS = (".mp4", ".gif")


def check(path: pathlib.Path, preview: pathlib.Path | None = None) -> None:
    """Refuses a film that cannot be written.

    Raises:
        UsageError: with what to do.
    """
    if path.suffix not in FORMATS:
        raise UsageError(f"--video={path}: its name must end with {' or '.join(FORMATS)}")
    if preview is not None and (preview.suffix != SUFFIX or preview == path):
        raise UsageError(f"--preview={preview}: must be another file, whose name ends with .gif")
    rendering.require_packages(f"--video={path}")
    outputs.check_file(path, f"--video={path}")
    if preview is not None:
        outputs.check_file(preview, f"--preview={preview}")
