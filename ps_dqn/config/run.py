"""How a run is shared among tasks, how long it is, how it is judged and what is kept."""

import dataclasses

from ps_dqn.config.options import SWITCH, option

# Those of `wire.encoding`, which needs NumPy, so it is not imported here.
WIRE_DTYPES = ("float32", "bfloat16", "float16", "int8")
OUTER_MOMENTUM = 0.5  # where nothing is said; see docs/scaling.md
OUTER_ADAM_STEP = 0.01
# Of a closure where nothing is said: its work (seconds), the share of it that its dispatch may
# take, and its pushes, at first and at most.
CLOSURE_SECONDS = 0.2
DISPATCH_SHARE = 0.005
FIRST_PUSHES = 4
MOST_PUSHES = 64
# Episodes that confirm an evaluation, where nothing is said, for each of its own.
CONFIRMATIONS = 2
# Ways of aggregating in rounds; see `parameter_server.aggregation`.
ROUNDS = ("sync", "trimmed_mean", "median")
# Who holds the parameters; see `ps_dqn.store`.
STRATEGIES = ("parameter_server", "all_reduce")


@dataclasses.dataclass(frozen=True)
class ParameterServer:
    """How workers and parameter servers share the work."""

    strategy: str = option(
        "parameter_server",
        "Who holds the parameters: parameter_server, tasks to which workers push; or all_reduce, "
        "the workers themselves, who add up the gradient of each update over all of them by "
        "TensorFlow's collectives, and need no other tasks.",
        choices=STRATEGIES,
    )
    update_period: float = option(
        8.0,
        "Environment steps of all workers for each sequential update: updates that workers make "
        "side by side count as one; with replay=rollout, of a worker's own for each of its updates "
        "(environment steps).",
        low=0.001,
    )
    local_updates: int = option(
        64,
        "Updates a worker makes on its own between a pull and a push (updates). 1 pushes the "
        "gradient to the parameter servers' optimizer; more pushes the change of the parameters.",
        low=1,
    )
    pushes_per_closure: int | None = option(
        None,
        f"Pulls and pushes in one scheduled closure (pushes). Default: {FIRST_PUSHES} with one "
        f"worker; with several, by what recent ones took, as many as take {CLOSURE_SECONDS} "
        f"seconds and {1 / DISPATCH_SHARE:.0f} times what their dispatch takes, at most "
        f"{MOST_PUSHES}, and no more than make the steps between two evaluations.",
        low=1,
    )
    overlap: str = option(
        "auto",
        "Whether a worker steps its environments while it learns and pushes: on, then each push "
        "learns from what was collected before it began; off, first the one and then the other; "
        "auto is on where an environment takes a millisecond or more for a step, and with "
        "topology=seed. With replay=rollout it is always off.",
        choices=SWITCH,
    )
    aggregation: str = option(
        "auto",
        "async applies each push as it arrives; sync waits for one push of every worker, all "
        "computed on the same version, and applies their mean; trimmed_mean and median apply those "
        "of each coordinate instead, whatever a minority of workers pushes (Yin et al. 2018). auto "
        "is sync where several workers push changes, unless replay=rollout or an option of async "
        "is set, and async otherwise.",
        choices=("auto", "async", *ROUNDS),
    )
    backup_workers: int = option(
        0,
        "In rounds (aggregation other than async), wait for this many workers less; what they push "
        "for the round is dropped (Chen et al. 2016) (workers).",
        low=0,
        needs={"aggregation": ("auto", *ROUNDS)},
    )
    trim_fraction: float = option(
        0.25,
        "Share of a round's pushes that do not count at either end of each coordinate.",
        low=0.0,
        high=0.49,
        needs={"aggregation": ("trimmed_mean",)},
    )
    max_staleness: int | None = option(
        None,
        "With aggregation=async, pushes computed on parameters more than this many versions old "
        "are refused (versions). Default: none are.",
        low=0,
        needs={"aggregation": ("auto", "async")},
    )
    outer_optimizer: str = option(
        "nesterov",
        "Optimizer of pushed changes, where local_updates is above 1: sgd adds them as they are.",
        choices=("nesterov", "adam", "sgd"),
    )
    outer_learning_rate: float | None = option(
        None,
        "Step size for pushed changes, where local_updates is above 1. Default: 1 - "
        f"outer_momentum; 1 with outer_optimizer=sgd, {OUTER_ADAM_STEP} with adam; with "
        "aggregation=async, divided by the number of workers that push, and in rounds times its "
        "cube root, but for adam's.",
        low=0.0,
    )
    outer_momentum: float | None = option(
        None,
        "Nesterov momentum of pushed changes, where local_updates is above 1. Default: "
        f"{OUTER_MOMENTUM}.",
        low=0.0,
        high=0.9999,
        needs={"outer_optimizer": ("nesterov",)},
    )
    staleness_decay: float = option(
        0.0,
        "With aggregation=async, a push counts e^(-decay · age), its age being the versions made "
        "since it was pulled.",
        low=0.0,
        needs={"aggregation": ("auto", "async")},
    )
    staleness_cutoff: int = option(
        0,
        "With aggregation=async, the weight of a push also falls along a cosine to nothing at "
        "this age; 0 has no such end (versions).",
        low=0,
        needs={"aggregation": ("auto", "async")},
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
    acting_backend: str = option(
        "auto",
        "What computes the actions of workers: TensorFlow, by a call for each step, or NumPy in "
        "the worker's Python, several steps at once. auto is numpy for dense layers over one "
        "array in float32, not normalized; actions that are sampled, by noisy layers or a policy, "
        "are TensorFlow's.",
        choices=("auto", "tensorflow"),
    )
    jit_compile: str = option(
        "auto",
        "What XLA compiles: the whole update loop; of it the optimizer's step alone; or nothing. "
        "auto is update, but optimizer for networks with convolutions where not every worker that "
        "learns has a GPU: XLA computes them slowly on CPUs.",
        choices=("auto", "update", "optimizer", "none"),
    )

    @property
    def has_servers(self) -> bool:
        """Whether there are tasks that hold the parameters, rather than the workers."""
        return self.strategy == "parameter_server"

    @property
    def is_synchronous(self) -> bool:
        """Whether workers push in rounds, and wait for each other."""
        return self.aggregation in ROUNDS

    @property
    def pushes_are_exact(self) -> bool:
        """Whether a push takes along all of its vector, as it is."""
        return self.push_wire_dtype == "float32" and self.push_top_k == 1.0


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
    confirm_episodes: int | None = option(
        None,
        "An evaluation that would be the best is called so once further episodes, of other seeds, "
        "have confirmed it: their mean is its score. 0: it is called so at once. Default: "
        f"{CONFIRMATIONS} times eval_episodes (episodes).",
        low=0,
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
    track: str = option(
        "none",
        "Where the rows of metrics go beside the run's files: Weights & Biases (wandb) or MLflow "
        "(mlflow), wherever their own environment variables say. Needs the extra: pip install "
        '"ps-dqn[wandb]" or "ps-dqn[mlflow]".',
        choices=("none", "wandb", "mlflow"),
    )
    log_interval: float = option(
        5.0,
        "From one line to the next where the output is not a terminal (seconds).",
        low=0.0,
        finite=False,
    )
    video_period: int = option(
        0,
        "From one film of a greedy episode to the next, which another process makes in videos/ of "
        "the run directory; 0 makes none (environment steps, all workers).",
        low=0,
    )

    @property
    def confirming_episodes(self) -> int:
        """Further episodes that confirm an evaluation; 0: none do."""
        if self.confirm_episodes is None:
            return CONFIRMATIONS * self.eval_episodes
        return self.confirm_episodes
