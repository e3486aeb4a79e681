"""What libraries read from a process's environment and a user's files as they are loaded."""

import os
import sys

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
