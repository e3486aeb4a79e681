"""What is learned and how: environment, network, values, updates, replay, exploration."""

import dataclasses

from ps_dqn.options import option

CHANGING = ("linear", "cosine", "exponential")
SCHEDULES = ("constant", *CHANGING)
NETWORKS = ("mlp", "nature", "minatar", "impala")
# Each worker's replay where neither a capacity nor a memory is said (transitions).
REPLAY_CAPACITY = 50_000


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
    frame_stack: int = option(
        1,
        "Observations are this many frames, the newest last: replay keeps each frame once. An "
        "environment that does not stack them itself is wrapped to do so (frames).",
        low=1,
    )


@dataclasses.dataclass(frozen=True)
class Network:
    """The Q-network."""

    network: str = option(
        "mlp",
        "mlp; nature, minatar or impala for images; or my_package.my_module:build, a function of "
        "(observation_shape, num_outputs) that returns a Keras model.",
    )
    hidden_sizes: tuple[int, ...] = option(
        (128, 128),
        "Widths of the dense layers, after any convolutions, comma separated (units).",
        low=1,
        needs={"network": NETWORKS},
    )
    activation: str = option(
        "relu",
        "Activation of the hidden layers.",
        choices=("relu", "gelu", "silu", "tanh", "elu"),
        needs={"network": NETWORKS},
    )
    layer_norm: bool = option(
        True,
        "Normalise each hidden layer before its activation.",
        needs={"network": NETWORKS},
    )
    network_width: int = option(
        1, "Factor of the channels of network=impala.", low=1, needs={"network": ("impala",)}
    )
    dueling: bool = option(
        False, "Separate streams for state value and advantages (Wang et al. 2016)."
    )
    noisy: bool = option(
        False, "Dense layers with learned noise, for exploration (Fortunato et al. 2018)."
    )
    noisy_sigma: float = option(
        0.5,
        "First scale of the noise, over the root of a layer's inputs.",
        low=0.0,
        needs={"noisy": (True,)},
    )
    recurrent_size: int = option(
        0, "Units of an LSTM behind the encoder, as in R2D2; 0 has none (units).", low=0
    )


@dataclasses.dataclass(frozen=True)
class Value:
    """What the network says of a state and an action, and what it is moved towards."""

    value_distribution: str = option(
        "none",
        "Expected returns (none), or their distribution: on fixed atoms (c51, Bellemare et al. "
        "2017), as fixed quantiles (qr_dqn) or as a function of the quantile (iqn) (Dabney et al. "
        "2018).",
        choices=("none", "c51", "qr_dqn", "iqn"),
    )
    num_atoms: int = option(
        51, "Atoms of c51 (atoms).", low=2, needs={"value_distribution": ("c51",)}
    )
    v_min: float = option(
        -10.0, "Smallest atom of c51 (return).", needs={"value_distribution": ("c51",)}
    )
    v_max: float = option(
        10.0, "Largest atom of c51 (return).", needs={"value_distribution": ("c51",)}
    )
    num_quantiles: int = option(
        32,
        "Quantiles of qr_dqn; of iqn, those of the online network in the loss (quantiles).",
        low=1,
        needs={"value_distribution": ("qr_dqn", "iqn")},
    )
    num_target_quantiles: int = option(
        32,
        "Quantiles of iqn's target network in the loss (quantiles).",
        low=1,
        needs={"value_distribution": ("iqn",)},
    )
    num_policy_quantiles: int = option(
        32,
        "Quantiles iqn acts by, evenly spaced (quantiles).",
        low=1,
        needs={"value_distribution": ("iqn",)},
    )
    num_cosines: int = option(
        64, "Cosines iqn embeds a quantile in.", low=1, needs={"value_distribution": ("iqn",)}
    )
    double_dqn: bool = option(
        True, "Choose the bootstrap action by the online network (van Hasselt et al. 2016)."
    )
    munchausen: bool = option(
        False,
        "Add the target policy's scaled log-probability to the reward, and bootstrap softly "
        "(Vieillard et al. 2020).",
    )
    munchausen_alpha: float = option(
        0.9, "Scale of the log-probability.", low=0.0, high=1.0, needs={"munchausen": (True,)}
    )
    munchausen_temperature: float = option(
        0.03, "Temperature of the target policy.", low=1e-6, needs={"munchausen": (True,)}
    )
    munchausen_clip: float = option(
        -1.0,
        "Smallest value of temperature times log-probability.",
        high=0.0,
        needs={"munchausen": (True,)},
    )
    value_rescaling: bool = option(
        False,
        "Learn sign(x)(√(|x|+1)-1)+0.001x of the return x instead of x (Pohlen et al. 2018).",
    )
    loss: str = option("huber", "Loss of the TD error.", choices=("huber", "squared"))
    huber_delta: float = option(
        1.0,
        "TD error at which the Huber loss turns linear (reward).",
        low=1e-6,
        needs={"loss": ("huber",), "value_distribution": ("none", "qr_dqn", "iqn")},
    )


@dataclasses.dataclass(frozen=True)
class Learning:
    """What a minibatch gradient is and how it is applied."""

    gamma: float = option(0.99, "Discount per environment step.", low=0.0, high=1.0)
    n_step: int = option(5, "Length of the bootstrapped return (environment steps).", low=1)
    batch_size: int = option(
        64, "Transitions in a minibatch; with recurrent_size, sequences (transitions).", low=1
    )
    optimizer: str = option(
        "adam", "Optimizer of the gradients.", choices=("adam", "rmsprop", "adagrad", "sgd")
    )
    learning_rate: float = option(1e-3, "Step size at the start.", low=0.0)
    learning_rate_end: float = option(
        1e-4,
        "Step size after learning_rate_decay_steps.",
        low=0.0,
        needs={"learning_rate_schedule": CHANGING},
    )
    learning_rate_schedule: str = option(
        "linear", "How the step size gets there; constant stays at the start.", choices=SCHEDULES
    )
    learning_rate_decay_steps: int = option(
        200_000,
        "Length of the step size's decay (environment steps, all workers).",
        low=1,
        needs={"learning_rate_schedule": CHANGING},
    )
    optimizer_epsilon: float = option(
        1e-5, "Constant in the denominators of adam, rmsprop and adagrad.", low=1e-12
    )
    momentum: float = option(
        0.9,
        "Momentum of optimizer=sgd; the other optimizers have their own.",
        low=0.0,
        high=0.9999,
        needs={"optimizer": ("sgd",)},
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
        128,
        "How often the online network is copied to the target; 0 has no target network, the "
        "online one bootstraps (updates).",
        low=0,
        needs={"tau": (0.0,)},
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
    """What each worker remembers, and what it learns from."""

    replay: str = option(
        "uniform",
        "How transitions are drawn: uniformly; by their TD error (prioritized, Schaul et al. "
        "2015); more from recent ones (recent, Wang and Ross 2019); or no replay (rollout): each "
        "push learns from the steps just made, by λ-returns, batch_size / update_period times "
        "(PQN, Gallici et al. 2024).",
        choices=("uniform", "prioritized", "recent", "rollout"),
    )
    replay_capacity: int | None = option(
        None,
        f"Size of each worker's replay (transitions). Default: {REPLAY_CAPACITY:,}, or what fits "
        "into replay_memory.",
        low=2,
    )
    replay_memory: str = option(
        "",
        "Memory of each worker's replay, like 2GiB, or a share like 50% of its container's limit "
        "or of its part of this machine. Default: what its capacity needs.",
    )
    replay_compression: str = option(
        "none",
        "Compression of image observations in replay; needs replay_memory. lz4 needs the extra: "
        'pip install "ps-dqn[compression]".',
        choices=("none", "lz4"),
    )
    replay_files: bool = option(
        False,
        "Keep replay in files under each worker's --worker_dir, so that a worker that comes back "
        "and a run that is resumed have it again.",
    )
    min_replay_size: int = option(
        1_000,
        "Each worker's replay before its first update (rows that can be sampled).",
        low=1,
        needs={"replay": ("uniform", "prioritized", "recent")},
    )
    priority_alpha: float = option(
        0.5,
        "Power of the TD error that a transition's probability follows.",
        low=0.0,
        high=2.0,
        needs={"replay": ("prioritized",)},
    )
    priority_beta: float = option(
        0.4,
        "Importance-sampling correction at the start; 1 at total_env_steps.",
        low=0.0,
        high=1.0,
        needs={"replay": ("prioritized",)},
    )
    priority_epsilon: float = option(
        1e-3, "Added to each TD error.", low=1e-12, needs={"replay": ("prioritized",)}
    )
    recency_eta: float = option(
        0.996,
        "How fast the window of recent transitions narrows from minibatch to minibatch of a push "
        "at the start of the run; 1 (no narrowing) at total_env_steps.",
        low=0.9,
        high=1.0,
        needs={"replay": ("recent",)},
    )
    recency_min_size: int = option(
        2_500,
        "Smallest window of recent transitions (transitions).",
        low=1,
        needs={"replay": ("recent",)},
    )
    trace_lambda: float = option(
        0.65,
        "λ of the returns of replay=rollout: 0 bootstraps from the next state, 1 from the last.",
        low=0.0,
        high=1.0,
        needs={"replay": ("rollout",)},
    )
    sequence_length: int = option(
        20,
        "With recurrent_size: steps learned from in a sequence (environment steps).",
        low=1,
        needs={"recurrent_size": ()},
    )
    sequence_period: int = option(
        10,
        "With recurrent_size: from one sequence's start to the next (environment steps).",
        low=1,
        needs={"recurrent_size": ()},
    )
    burn_in: int = option(
        10,
        "With recurrent_size: steps before those, which only warm up the state (environment "
        "steps).",
        low=0,
        needs={"recurrent_size": ()},
    )


@dataclasses.dataclass(frozen=True)
class Exploration:
    """How workers choose actions while they collect."""

    epsilon_start: float = option(
        1.0, "Probability of a random action at the start.", low=0.0, high=1.0
    )
    epsilon_end: float = option(
        0.05,
        "Probability of a random action after epsilon_decay_steps.",
        low=0.0,
        high=1.0,
        needs={"epsilon_schedule": CHANGING},
    )
    epsilon_schedule: str = option(
        "linear", "How epsilon gets there; constant stays at the start.", choices=SCHEDULES
    )
    epsilon_decay_steps: int = option(
        20_000,
        "Length of epsilon's decay (environment steps, all workers).",
        low=1,
        needs={"epsilon_schedule": CHANGING},
    )
    epsilon_ladder: bool = option(
        False,
        "Worker i of N explores with epsilon^(1 + 7i/(N-1)), as in Ape-X (Horgan et al. 2018).",
    )
