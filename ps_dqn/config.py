"""Every hyperparameter once: its default, unit, range and help.

The flags are generated from these classes, workers receive them as JSON, and the code reads them
as plain attributes, so a default or a limit is written in this file and nowhere else.
"""

import dataclasses
import json
import types
import typing
from typing import Any

from ps_dqn import checks
from ps_dqn.options import check, option

# See `encoding`, which this module does not import because it needs NumPy.
WIRE_DTYPES = ("float32", "bfloat16", "float16", "int8")
# Where nothing is said; measured for 1 to 8 workers: see docs/parameter-server.md.
OUTER_MOMENTUM, MOST_WORKERS_FOR_ROOT = 0.5, 4


@dataclasses.dataclass(frozen=True)
class Environment:
    """What the workers act in."""

    env_id: str = option("CartPole-v1", "Gymnasium id of the environment.")
    env_module: str = option(
        "", "Python module to import first, on every task; it registers env_id with Gymnasium."
    )
    env_kwargs: str = option("{}", "Keyword arguments of the environment, as a JSON object.")
    num_envs_per_worker: int = option(
        64, "Environments each worker steps together (environments).", low=1
    )
    vectorization: str = option(
        "auto",
        "How a worker steps its environments: all in one process (sync), one process each "
        "(async), or the environment's own vector form where it has one, else sync (auto).",
        choices=("auto", "sync", "async"),
    )


@dataclasses.dataclass(frozen=True)
class Network:
    """The Q-network."""

    hidden_sizes: tuple[int, ...] = option(
        (128, 128), "Widths of the hidden layers, comma separated (units).", low=1
    )
    activation: str = option(
        "relu",
        "Activation of the hidden layers.",
        choices=("relu", "gelu", "silu", "tanh", "elu"),
    )
    layer_norm: bool = option(True, "Normalise each hidden layer before its activation.")


@dataclasses.dataclass(frozen=True)
class Learning:
    """What a minibatch gradient is and how it is applied."""

    gamma: float = option(0.99, "Discount per environment step.", low=0.0, high=1.0)
    n_step: int = option(5, "Length of the bootstrapped return (environment steps).", low=1)
    double_dqn: bool = option(
        True, "Choose the bootstrap action by the online network (van Hasselt et al. 2016)."
    )
    loss: str = option("huber", "Loss of the TD error.", choices=("huber", "squared"))
    huber_delta: float = option(
        1.0, "TD error at which the Huber loss turns linear (reward).", low=1e-6
    )
    batch_size: int = option(64, "Transitions in a minibatch (transitions).", low=1)
    optimizer: str = option(
        "adam", "Optimizer of the gradients.", choices=("adam", "rmsprop", "adagrad", "sgd")
    )
    learning_rate: float = option(1e-3, "Step size at the start.", low=0.0)
    learning_rate_end: float = option(
        1e-4, "Step size after learning_rate_decay_steps, reached linearly.", low=0.0
    )
    learning_rate_decay_steps: int = option(
        200_000, "Length of the step size's decay (environment steps, all workers).", low=1
    )
    optimizer_epsilon: float = option(
        1e-5, "Constant in the denominators of adam, rmsprop and adagrad.", low=1e-12
    )
    momentum: float = option(
        0.9, "Momentum of optimizer=sgd; the other optimizers have their own.", low=0.0, high=0.9999
    )
    max_grad_norm: float = option(
        10.0, "Gradients with a larger Euclidean norm are scaled down to it; 0 never.", low=0.0
    )
    average_decay: float = option(
        0.9995,
        "Evaluations, and the best checkpoint with them, use a moving average of the online "
        "parameters that keeps this share of itself at every update (Polyak and Juditsky 1992); 0 "
        "uses the online parameters themselves.",
        low=0.0,
        high=0.999999,
    )
    target_update_period: int = option(
        128, "How often the online network is copied to the target (updates).", low=1
    )
    tau: float = option(
        0.0,
        "Above 0: no copies, the target moves this fraction of the way to the online network at "
        "every update instead.",
        low=0.0,
        high=1.0,
    )


@dataclasses.dataclass(frozen=True)
class Replay:
    """What each worker remembers."""

    replay_capacity: int = option(50_000, "Size of each worker's replay (transitions).", low=2)
    min_replay_size: int = option(
        1_000, "Each worker's replay before its first update (rows that can be sampled).", low=1
    )


@dataclasses.dataclass(frozen=True)
class Exploration:
    """How workers choose actions while they collect."""

    epsilon_start: float = option(
        1.0, "Probability of a random action at the start.", low=0.0, high=1.0
    )
    epsilon_end: float = option(
        0.05, "Probability of a random action after epsilon_decay_steps.", low=0.0, high=1.0
    )
    epsilon_decay_steps: int = option(
        20_000, "Length of the linear decay of epsilon (environment steps, all workers).", low=1
    )
    epsilon_ladder: bool = option(
        False,
        "Worker i of N explores with epsilon^(1 + 7i/(N-1)), as in Ape-X (Horgan et al. 2018).",
    )


@dataclasses.dataclass(frozen=True)
class ParameterServer:
    """How workers and parameter servers share the work."""

    update_period: int = option(
        8, "Environment steps collected for each update (environment steps).", low=1
    )
    local_updates: int = option(
        64,
        "Updates a worker makes on its own between a pull and a push (updates). 1 pushes the "
        "gradient to the parameter servers' optimizer; more pushes the change of the parameters.",
        low=1,
    )
    pushes_per_closure: int = option(
        4, "Pulls and pushes in one scheduled closure (pushes).", low=1
    )
    aggregation: str = option(
        "async",
        "async applies each push as it arrives; sync waits for one push of every worker, all "
        "computed on the same version, and applies their mean.",
        choices=("async", "sync"),
    )
    backup_workers: int = option(
        0,
        "With aggregation=sync, a round waits for this many workers less; what they push for it "
        "is dropped (Chen et al. 2016) (workers).",
        low=0,
    )
    max_staleness: int | None = option(
        None,
        "With aggregation=async, pushes computed on parameters more than this many versions old "
        "are refused (versions). Default: none are.",
        low=0,
    )
    outer_learning_rate: float | None = option(
        None,
        "Step size for pushed changes, where local_updates is above 1. Default: 1 - "
        "outer_momentum; with aggregation=async, divided by the square root of num_workers, "
        f"above {MOST_WORKERS_FOR_ROOT} by num_workers.",
        low=0.0,
    )
    outer_momentum: float | None = option(
        None,
        "Nesterov momentum of pushed changes, where local_updates is above 1. Default: "
        f"{OUTER_MOMENTUM}.",
        low=0.0,
        high=0.9999,
    )
    staleness_decay: float = option(
        0.0,
        "With aggregation=async, a push counts e^(-decay · age), its age being the versions made "
        "since it was pulled.",
        low=0.0,
    )
    staleness_cutoff: int = option(
        0,
        "With aggregation=async, the weight of a push also falls along a cosine to nothing at "
        "this age; 0 has no such end (versions).",
        low=0,
    )
    outlier_gate: float = option(
        0.0,
        "Workers keep back a push whose loss is more than this many standard deviations above its "
        "running mean (Nair et al. 2015); 0 keeps back only what is not finite.",
        low=0.0,
    )
    pull_wire_dtype: str = option(
        "float32", "How parameters travel to the workers.", choices=WIRE_DTYPES
    )
    push_wire_dtype: str = option(
        "float32",
        "How pushes travel; what rounding takes away is added to the worker's next push.",
        choices=WIRE_DTYPES,
    )
    push_top_k: float = option(
        1.0,
        "Share of a push's numbers that travels, the largest; the others are added to the "
        "worker's next push (Lin et al. 2018).",
        low=1e-6,
        high=1.0,
    )
    closures_per_worker: int = option(
        2, "Closures outstanding for each worker, running or queued (closures).", low=1
    )
    jit_compile: bool = option(True, "Compile the update loop with XLA.")


@dataclasses.dataclass(frozen=True)
class Run:
    """How long, how judged, what is kept."""

    seed: int = option(0, "Seed of everything random.", low=0, high=2**31 - 1)
    total_env_steps: int = option(
        500_000, "End of the run (environment steps, all workers).", low=1
    )
    target_return: float | None = option(
        None,
        "Stop once three evaluations in a row reach this mean return. Default: the environment's "
        "reward threshold where Gymnasium has one; inf never stops early.",
        finite=False,
    )
    eval_period: int = option(
        10_000, "From one greedy evaluation to the next (environment steps, all workers).", low=1
    )
    eval_episodes: int = option(20, "Episodes of an evaluation (episodes).", low=1)
    eval_episodes_per_closure: int = option(
        20,
        "Episodes that one worker plays side by side; an evaluation of more is shared among the "
        "workers (episodes).",
        low=1,
    )
    eval_epsilon: float = option(
        0.0, "Probability of a random action in evaluations.", low=0.0, high=1.0
    )
    max_eval_steps: int = option(
        27_000, "Evaluation episodes are cut here (environment steps).", low=1
    )
    checkpoint_period: float = option(
        60.0, "From one newest checkpoint to the next (seconds).", low=0.0, finite=False
    )
    keep_checkpoints: int = option(3, "Newest checkpoints kept (files).", low=1)
    metrics_period: int = option(
        10_000, "From one row of metrics to the next (environment steps, all workers).", low=1
    )
    log_interval: float = option(
        5.0,
        "From one line to the next where the output is not a terminal (seconds).",
        low=0.0,
        finite=False,
    )


@dataclasses.dataclass(frozen=True)
class Config:
    """A whole experiment. Built from flags; sent to workers as JSON."""

    environment: Environment = dataclasses.field(default_factory=Environment)
    network: Network = dataclasses.field(default_factory=Network)
    learning: Learning = dataclasses.field(default_factory=Learning)
    replay: Replay = dataclasses.field(default_factory=Replay)
    exploration: Exploration = dataclasses.field(default_factory=Exploration)
    parameter_server: ParameterServer = dataclasses.field(default_factory=ParameterServer)
    run: Run = dataclasses.field(default_factory=Run)

    def __post_init__(self) -> None:
        """Refuses values out of range and combinations that cannot work.

        Raises:
            UsageError: with the flag, its value and what to do.
        """
        for group in groups():
            for field in dataclasses.fields(group.type):
                check(field, getattr(getattr(self, group.name), field.name))
        checks.check(self)

    def to_json(self) -> str:
        """The whole configuration as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """What `to_json` wrote."""
        return cls.from_values(
            {name: value for group in json.loads(text).values() for name, value in group.items()}
        )

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> "Config":
        """A configuration from option names and values; options not named keep their default."""
        made = {}
        for group in groups():
            names = {field.name for field in dataclasses.fields(group.type)}
            given = {name: values[name] for name in names & values.keys()}
            if "hidden_sizes" in given:
                given["hidden_sizes"] = tuple(given["hidden_sizes"])
            made[group.name] = group.type(**given)
        return cls(**made)

    @property
    def vector_steps_per_push(self) -> int:
        """Steps of a worker's vector environment between a pull and a push."""
        env_steps = self.parameter_server.local_updates * self.parameter_server.update_period
        return env_steps // self.environment.num_envs_per_worker

    @property
    def env_steps_per_closure(self) -> int:
        """Environment steps of one closure, resets counted as steps."""
        shape = self.parameter_server
        return shape.pushes_per_closure * shape.local_updates * shape.update_period


@dataclasses.dataclass(frozen=True)
class Group:
    """One topic of options: its attribute in `Config` and the class that lists them."""

    name: str
    type: Any


def groups() -> tuple[Group, ...]:
    """The topics, in the order in which they are shown to people."""
    return tuple(Group(name, type_) for name, type_ in typing.get_type_hints(Config).items())


def option_type(group: Group, field: dataclasses.Field) -> Any:
    """The Python type of one option, without the None of an optional one."""
    hint = typing.get_type_hints(group.type)[field.name]
    if isinstance(hint, types.UnionType):
        return next(each for each in typing.get_args(hint) if each is not type(None))
    return hint
