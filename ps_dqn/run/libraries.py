"""What libraries read from a process's environment and a user's files as they are loaded."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator

from ps_dqn.errors import UsageError

# A person's own settings stay.
SETTINGS = {
    # The mathematics is TensorFlow's, and a process with one thread can be forked safely.
    "OPENBLAS_NUM_THREADS": "1",
    # TensorFlow's tasks would each take the whole memory of a GPU that they share.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}
# Every layer here is TensorFlow's; a person's setting is another project's.
KERAS_BACKEND = "tensorflow"


def set_up() -> None:
    """To be called before NumPy and TensorFlow are imported."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["KERAS_BACKEND"] = KERAS_BACKEND


def settle() -> None:
    """Has Keras, where it is imported, as it is without a keras.json: that is one for all projects.

    So a network is the same on every machine, too.
    """
    if "keras" in sys.modules:
        config = sys.modules["keras"].config
        config.set_image_data_format("channels_last")
        config.set_floatx("float32")
        config.set_epsilon(1e-7)
        config.set_dtype_policy("float32")


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Keras likewise within a block of somebody's own program, and then as it was.

    Raises:
        UsageError: it was imported on something else than TensorFlow.
    """
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = KERAS_BACKEND
    config = importlib.import_module("keras").config
    if (backend := config.backend()) != KERAS_BACKEND:
        raise UsageError(
            f"Keras was imported with the backend {backend}, and networks here are TensorFlow's: "
            f"set KERAS_BACKEND={KERAS_BACKEND} before it is imported"
        )
    before = config.image_data_format(), config.floatx(), config.epsilon()
    policy = config.dtype_policy()
    settle()
    try:
        yield
    finally:
        config.set_image_data_format(before[0])
        config.set_floatx(before[1])
        config.set_epsilon(before[2])
        config.set_dtype_policy(policy)
