"""Every option once: its default, unit, range, help and what it needs. No NumPy, no TensorFlow."""

from ps_dqn.config.agent import Network, Value
from ps_dqn.config.demonstrations import Demonstrations
from ps_dqn.config.environment import Environment
from ps_dqn.config.experiment import Config, Group, fields, groups, option_type
from ps_dqn.config.exploration import Exploration
from ps_dqn.config.faults import Faults
from ps_dqn.config.learning import Learning
from ps_dqn.config.precision import Precision
from ps_dqn.config.profiling import Profiling
from ps_dqn.config.pruning import Pruning
from ps_dqn.config.replay import Replay
from ps_dqn.config.resets import Resets
from ps_dqn.config.run import ParameterServer, Run

__all__ = [
    "Config",
    "Demonstrations",
    "Environment",
    "Exploration",
    "Faults",
    "Group",
    "Learning",
    "Network",
    "ParameterServer",
    "Precision",
    "Profiling",
    "Pruning",
    "Replay",
    "Resets",
    "Run",
    "Value",
    "fields",
    "groups",
    "option_type",
]
