"""Python: `from ps_dqn import load, train`.

Everything that users of the package import is listed here; `ps_dqn` itself offers it, lazily.
"""

from ps_dqn.api.loading import load
from ps_dqn.api.measures import Measures
from ps_dqn.api.run import Run
from ps_dqn.api.training import train
from ps_dqn.errors import TrainingError, UsageError

__all__ = ["Measures", "Run", "TrainingError", "UsageError", "load", "train"]
