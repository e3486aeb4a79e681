"""The Q-network, and what it says of an action."""

import dataclasses

from ps_dqn.config.environment import Environment
from ps_dqn.config.options import SWITCH, option
from ps_dqn.errors import UsageError

NETWORKS = ("mlp", "nature", "minatar", "impala")
# What is larger is normalized where nothing is said: quantities of observations, rewards.
LARGE = 10.0
# Of `value_distribution`: those that learn expected returns, and those that cut their range up.
EXPECTED, ON_ATOMS = ("none", "hl_gauss"), ("c51", "hl_gauss")


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
    normalize_observations: str = option(
        "auto",
        "Quantities of observations have their running mean taken away and are divided by their "
        "standard deviation, over all workers, before the network sees them; bytes are not. auto "
        f"is on where some are beyond {LARGE:g} in an environment's first steps.",
        choices=SWITCH,
        was_bool=True,
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
    network_width: float = option(
        1.0,
        "Factor of the channels of the convolutions.",
        low=1 / 16,
        needs={"network": ("nature", "minatar", "impala")},
    )
    spectral_norm: bool = option(
        False,
        "Divide the kernels of the convolutions in residual blocks by their largest singular "
        "values (Miyato et al. 2018).",
        needs={"network": ("impala",)},
    )
    pooled_size: int = option(
        0,
        "Cells along each side of a grid over what the convolutions find, of which only the "
        "maxima go on, as in BTR (Clark et al. 2024); 0: all of it goes on (cells).",
        low=0,
        needs={"network": ("impala",)},
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
        0,
        "Units of an LSTM behind the encoder, as in R2D2; with replay=rollout it runs along the "
        "steps of each environment. 0 has none (units).",
        low=0,
    )


@dataclasses.dataclass(frozen=True)
class Value:
    """What the network says of a state and an action, and what it is moved towards."""

    algorithm: str = option(
        "dqn",
        "What is learned: the values of actions, of which the best is taken (dqn), or a policy and "
        "the values of states (a3c, Mnih et al. 2016).",
        choices=("dqn", "a3c"),
    )
    value_distribution: str = option(
        "none",
        "Expected returns (none), also as the mean of a histogram that is learned by cross-entropy "
        "(hl_gauss, Farebrother et al. 2024), or the distribution of returns: on fixed atoms (c51, "
        "Bellemare et al. 2017), as fixed quantiles (qr_dqn) or as a function of the quantile "
        "(iqn) (Dabney et al. 2018).",
        choices=("none", "hl_gauss", "c51", "qr_dqn", "iqn"),
    )
    num_atoms: int = option(
        51, "Atoms of c51, bins of hl_gauss (atoms).", low=2, needs={"value_distribution": ON_ATOMS}
    )
    v_min: float = option(
        -10.0,
        "Smallest atom of c51, lower end of hl_gauss; where neither v_min nor v_max is said, both "
        "follow from rewards that are known and gamma (return).",
        needs={"value_distribution": ON_ATOMS},
    )
    v_max: float = option(
        10.0,
        "Largest atom of c51, upper end of hl_gauss; see v_min (return).",
        needs={"value_distribution": ON_ATOMS},
    )
    hl_gauss_sigma: float = option(
        0.75,
        "Standard deviation that hl_gauss gives each target (widths of a bin).",
        low=0.01,
        needs={"value_distribution": ("hl_gauss",)},
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
        "Quantiles by which iqn chooses actions, when it acts and in its targets; evenly spaced "
        "(quantiles).",
        low=1,
        needs={"value_distribution": ("iqn",)},
    )
    num_cosines: int = option(
        64, "Cosines iqn embeds a quantile in.", low=1, needs={"value_distribution": ("iqn",)}
    )
    target: str = option(
        "greedy",
        "Bootstrap from the greedy action's value (greedy), or from the mean over the actions of "
        "the policy that acts, with its epsilon (expected_sarsa, van Seijen et al. 2009).",
        choices=("greedy", "expected_sarsa"),
        needs={
            "value_distribution": EXPECTED,
            "munchausen": (False,),
            "replay": ("uniform", "prioritized", "recent"),
        },
    )
    normalize_returns: str = option(
        "auto",
        "Rewards are divided by the standard deviation of the discounted return so far, over all "
        "workers, when they are learned from: values are then of size 1. auto is on where those of "
        f"an environment's first steps are of a mean size beyond {LARGE:g}.",
        choices=SWITCH,
        was_bool=True,
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
    loss: str = option("huber", "Loss of the TD error.", choices=("huber", "squared", "log_cosh"))
    huber_delta: float = option(
        1.0,
        "TD error at which the Huber loss turns linear (reward).",
        low=1e-6,
        needs={"loss": ("huber",), "value_distribution": ("none", "qr_dqn", "iqn")},
    )

    @property
    def learns_policy(self) -> bool:
        """Whether actions are drawn from a policy, rather than chosen by their values."""
        return self.algorithm == "a3c"

    @property
    def spans_returns(self) -> bool:
        """Whether `v_min` and `v_max` are of the environment's own returns, learned as they are."""
        is_as_paid = not (self.value_rescaling or self.normalize_returns == "on")
        return self.value_distribution in ON_ATOMS and is_as_paid

    def check_beside_branches(
        self, environment: Environment, network: Network, replay: str
    ) -> None:
        """Refuses what goes by values of whole actions.

        Raises:
            UsageError: with the flags and what to do.
        """
        by_actions = {
            f"--value_distribution={self.value_distribution}": self.value_distribution != "none",
            "--munchausen=true": self.munchausen,
            "--value_rescaling=true": self.value_rescaling,
            f"--recurrent_size={network.recurrent_size}": network.recurrent_size > 0,
            f"--network={network.network}": ":" in network.network,
            f"--replay={replay}": replay == "rollout",
        }
        for flag, is_wanted in by_actions.items():
            if environment.branching and is_wanted:
                raise UsageError(
                    f"--branching=true: has values of the parts of actions, and {flag} goes by "
                    f"those of whole actions; leave one of them out"
                )
