"""Whether atoms reach as far as the returns of environments whose rewards are known."""

from ps_dqn.config import Config

# Environments of Gymnasium in which each step pays the same: what, and for how many steps at most.
EACH_STEP = {
    "CartPole-v0": (1.0, 200),
    "CartPole-v1": (1.0, 500),
    "Acrobot-v1": (-1.0, 500),
    "MountainCar-v0": (-1.0, 200),
}
# What an episode's last step pays at worst and at best.
AT_THE_END = {"LunarLander-v3": (-100.0, 100.0)}


def notes(config: Config) -> list[str]:
    """What people should know of atoms that surely do not span what is to be learned."""
    value, gamma = config.value, config.learning.gamma
    reached = _returns(config)
    if not value.spans_returns or reached is None:
        return []
    low, high = reached
    if value.v_min <= low and high <= value.v_max:
        return []
    return [
        f"{value.value_distribution}'s atoms reach from --v_min={value.v_min:g} to "
        f"--v_max={value.v_max:g}, and discounted returns of {config.environment.env_id} from "
        f"{low:.4g} to {high:.4g} (--gamma={gamma:g}): say a --v_min and a --v_max around those"
    ]


def _returns(config: Config) -> tuple[float, float] | None:
    """Discounted returns that states surely have, the smallest and the largest; None: unknown."""
    environment, learning = config.environment, config.learning
    if environment.env_wrappers or environment.env_kwargs != "{}":
        return None  # which may change what is paid
    most = learning.reward_clip or float("inf")
    if environment.env_id in AT_THE_END:
        low, high = AT_THE_END[environment.env_id]
        return max(low, -most), min(high, most)
    if environment.env_id not in EACH_STEP:
        return None
    paid, steps = EACH_STEP[environment.env_id]
    paid, gamma = max(min(paid, most), -most), learning.gamma
    whole = paid * (steps if gamma == 1 else (1 - gamma**steps) / (1 - gamma))
    return min(paid, whole), max(paid, whole)
