"""The topics of an experiment's options, each a class of its own."""

import dataclasses

from ps_dqn.config.actor_critic import ActorCritic
from ps_dqn.config.agent import Network, Value
from ps_dqn.config.demonstrations import Demonstrations
from ps_dqn.config.environment import Environment
from ps_dqn.config.exploration import Exploration
from ps_dqn.config.faults import Faults
from ps_dqn.config.learning import Learning
from ps_dqn.config.precision import Precision
from ps_dqn.config.profiling import Profiling
from ps_dqn.config.pruning import Pruning
from ps_dqn.config.replay import Replay
from ps_dqn.config.resets import Resets
from ps_dqn.config.run import ParameterServer, Run
from ps_dqn.config.topology import Topology


@dataclasses.dataclass(frozen=True)
class Topics:
    """Every option, in the order in which people are shown the topics; nothing is checked yet."""

    topology: Topology = dataclasses.field(default_factory=Topology)
    environment: Environment = dataclasses.field(default_factory=Environment)
    network: Network = dataclasses.field(default_factory=Network)
    value: Value = dataclasses.field(default_factory=Value)
    actor_critic: ActorCritic = dataclasses.field(default_factory=ActorCritic)
    learning: Learning = dataclasses.field(default_factory=Learning)
    precision: Precision = dataclasses.field(default_factory=Precision)
    replay: Replay = dataclasses.field(default_factory=Replay)
    resets: Resets = dataclasses.field(default_factory=Resets)
    pruning: Pruning = dataclasses.field(default_factory=Pruning)
    demonstrations: Demonstrations = dataclasses.field(default_factory=Demonstrations)
    exploration: Exploration = dataclasses.field(default_factory=Exploration)
    parameter_server: ParameterServer = dataclasses.field(default_factory=ParameterServer)
    run: Run = dataclasses.field(default_factory=Run)
    faults: Faults = dataclasses.field(default_factory=Faults)
    profiling: Profiling = dataclasses.field(default_factory=Profiling)
