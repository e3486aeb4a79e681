"""What libraries read from a process's environment as they are loaded."""

import os

# A person's own settings stay.
SETTINGS = {
    # The mathematics is TensorFlow's, and a process with one thread can be forked safely.
    "OPENBLAS_NUM_THREADS": "1",
    # TensorFlow's tasks would each take the whole memory of a GPU that they share.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}


def set_up() -> None:
    """To be called before NumPy and TensorFlow are imported."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
