"""How a smaller network learns to act as a trained one does (policy distillation)."""

import dataclasses

from ps_dqn.config.options import check, check_needs, option

# Temperatures where none is said: the paper's, and what leaves probabilities as they are.
_OF_VALUES, _OF_LOGITS = 0.01, 1.0


@dataclasses.dataclass(frozen=True)
class Distillation:
    """How the student learns (Rusu et al. 2016, arXiv:1511.06295)."""

    loss: str = option(
        "kl",
        "What is made small: the KL divergence of the softmax of the student's values from that of "
        "the teacher's over the temperature (kl); their squared difference (mse); or the negative "
        "log-likelihood of the teacher's action (nll).",
        choices=("kl", "mse", "nll"),
    )
    temperature: float | None = option(
        None,
        "What the teacher's values are divided by: the smaller, the more its best action alone "
        f"counts (return). Default: {_OF_VALUES}; {_OF_LOGITS:g} where it learned a policy, whose "
        "probabilities the student then learns.",
        low=1e-6,
        needs={"loss": ("kl",)},
    )
    played_by: str = option(
        "student",
        "Who plays while the teacher says what is right: the student, which so learns what to do "
        "where its own actions lead (Ross et al. 2011; Czarnecki et al. 2019); or the teacher, as "
        "in the paper.",
        choices=("student", "teacher"),
    )
    epsilon: float = option(
        0.05, "Probability of a random action while they play.", low=0.0, high=1.0
    )
    env_steps: int = option(50_000, "Steps that are played (environment steps).", low=1)
    num_envs: int = option(32, "Environments that are played side by side (environments).", low=1)
    capacity: int = option(
        50_000, "Newest observations that are kept to learn from (observations).", low=1
    )
    update_period: float = option(
        2.0, "From one minibatch to the next (environment steps).", low=0.001
    )
    batch_size: int = option(64, "Observations in a minibatch (observations).", low=1)
    learning_rate: float = option(
        2e-3, "Step size of Adam at the start; it falls linearly to 0 (step).", low=0.0, high=1e3
    )
    seed: int = option(
        0, "Seed of the student's first weights and of what is played.", low=0, high=2**31 - 1
    )

    def __post_init__(self) -> None:
        """Refuses values out of range and those without effect.

        Raises:
            UsageError: with the flag, its value and what to do.
        """
        options = [(field, getattr(self, field.name)) for field in dataclasses.fields(self)]
        for field, value in options:
            check(field, value)
        check_needs(options)

    def temperature_of(self, has_policy: bool) -> float:
        """What the teacher's values, or a policy's logits, are divided by."""
        if self.temperature is not None:
            return self.temperature
        return _OF_LOGITS if has_policy else _OF_VALUES

    @property
    def updates_at_once(self) -> int:
        """Minibatches after each step of all environments."""
        return max(round(self.num_envs / self.update_period), 1)
