"""What a minibatch gradient is and how it is applied."""

import dataclasses

from ps_dqn.config.options import CHANGING, SCHEDULES, option


@dataclasses.dataclass(frozen=True)
class Learning:
    """What a minibatch gradient is and how it is applied."""

    gamma: float = option(0.99, "Discount per environment step.", low=0.0, high=1.0)
    reward_clip: float = option(
        0.0,
        "Rewards are limited to this size before anything is learned from them, as DQN's were to "
        "1; scores stay the environment's own. 0 does not limit them.",
        low=0.0,
    )
    n_step: int = option(5, "Length of the bootstrapped return (environment steps).", low=1)
    batch_size: int = option(
        64,
        "Transitions in a minibatch; with recurrent_size, sequences, but with replay=rollout the "
        "transitions of whole ones (transitions).",
        low=1,
    )
    random_shift: int = option(
        0,
        "Images are shifted by up to so many pixels each way before they are learned from, each "
        "minibatch's anew, the edges repeated (DrQ; Yarats et al. 2021). 0: not (pixels).",
        low=0,
    )
    optimizer: str = option(
        "adam",
        "Optimizer of the gradients; DQN's own is rmsprop_centered.",
        choices=("adam", "adamw", "radam", "rmsprop", "rmsprop_centered", "adagrad", "sgd"),
    )
    learning_rate: float = option(1e-3, "Step size at the start.", low=0.0, high=1e3)
    learning_rate_end: float = option(
        1e-4,
        "Step size after learning_rate_decay_steps.",
        low=0.0,
        high=1e3,
        needs={"learning_rate_schedule": CHANGING},
    )
    learning_rate_schedule: str = option(
        "linear", "How the step size gets there; constant stays at the start.", choices=SCHEDULES
    )
    learning_rate_decay_steps: int | str = option(
        200_000,
        "Length of the step size's decay (environment steps, all workers; or a share of the run, "
        "like 50%).",
        low=1,
        needs={"learning_rate_schedule": CHANGING},
    )
    optimizer_epsilon: float = option(
        1e-5,
        "Constant in the denominators of all forms of adam and rmsprop, and of adagrad: outside "
        "the root in adam (epsilon-hat at the end of section 2 of Kingma and Ba 2015) and adagrad, "
        "inside it in rmsprop.",
        low=1e-12,
        needs={"optimizer": ("adam", "adamw", "radam", "rmsprop", "rmsprop_centered", "adagrad")},
    )
    rmsprop_decay: float = option(
        0.95,
        "Share of themselves that the means of both forms of rmsprop keep at every step.",
        low=0.0,
        high=0.999999,
        needs={"optimizer": ("rmsprop", "rmsprop_centered")},
    )
    weight_decay: float = option(
        0.01,
        "Share of themselves that optimizer=adamw takes from all parameters at every step, times "
        "the step size (Loshchilov and Hutter 2019).",
        low=0.0,
        high=1e3,
        needs={"optimizer": ("adamw",)},
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
        "parameters that keeps this share of itself at every sequential update (Polyak and "
        "Juditsky 1992); 0 uses the online parameters themselves.",
        low=0.0,
        high=0.999999,
    )
    target_update_period: int = option(
        128,
        "How often the online network is copied to the target; 0 has no target network, the "
        "online one bootstraps (sequential updates).",
        low=0,
        needs={"tau": (0.0,)},
    )
    tau: float = option(
        0.0,
        "Above 0: no copies, the target moves this fraction of the way to the online network at "
        "every sequential update instead.",
        low=0.0,
        high=1.0,
    )
