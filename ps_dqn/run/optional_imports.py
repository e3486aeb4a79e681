"""Imports TensorFlow without packages that it only uses where they happen to be installed.

Keras and TensorFlow import them for what nobody does here: galleries of images, data frames,
notebooks, sparse arrays, other backends. Together they take up to a third of the time until tasks
can be started; and a folder that happens to be called jax is taken for that package.
"""

import contextlib
import sys
from collections.abc import Iterator

from ps_dqn.run import libraries

NAMES = ("IPython", "jax", "matplotlib", "pandas", "scipy")


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """They are not found in the block, unless they have been imported before.

    Whoever imports them after it gets them. One thread at a time may import then. Keras, if it was
    imported there, goes by no settings of a user's for other projects.
    """
    absent = [name for name in NAMES if name not in sys.modules]
    # As `import` has it, a module that is known not to be there.
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
    libraries.settle()
