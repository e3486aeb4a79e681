"""A value for every option that is not its default, and experiments that have all of them."""

import dataclasses
from typing import Any

from ps_dqn import config as configuration

OPTIONS: list[tuple[configuration.Group, dataclasses.Field]] = [
    (group, field) for group in configuration.groups() for field in dataclasses.fields(group.type)
]
FIELDS = {field.name: field for _, field in OPTIONS}
DEFAULTS = {name: field.default for name, field in FIELDS.items()}

# Good values that are not the default and do not follow from it.
NOT_DEFAULT: dict[str, Any] = {
    "pushes_per_closure": 9,
    "demonstrations": "shown.npz",
    "env_id": "Acrobot-v1",
    "env_module": "json",
    "env_kwargs": '{"name": "a b, c"}',
    "env_wrappers": "my.module:Wrapper,another:wrap",
    "eval_env_kwargs": '{"name": "d"}',
    "num_envs_per_worker": 16,
    "network": "impala",
    "hidden_sizes": (7, 5),
    "precision": "float16",
    "optimizer": "sgd",
    "learning_rate_schedule": "exponential",
    **{"epsilon_schedule": "cosine", "epsilon_decay_steps": 7_000},
    "replay_capacity": 60_000,
    "replay_memory": "500MB",
    "recency_eta": 0.95,
    "reset_period": 100_000,
    "pruning_start": "5%",
    "pruning_end": "50%",
    "gamma_start": 0.25,
    "target_return": -12.5,
    "confirm_episodes": 30,
    "max_staleness": 3,
    "outer_learning_rate": 0.7,
    "outer_momentum": 0.25,
    "worker_timeout": 33.0,
    "ps_recovery_timeout": 44.0,
    "snapshot_period": 3.5,
    "min_workers": 3,
    "profile": "100:200",
}
ROLLOUT = {"target_update_period": 0, "double_dqn": False, "n_step": 1}
A3C = {
    **{"algorithm": "a3c", "replay": "rollout", "epsilon_start": 0.0, "epsilon_end": 0.0},
    **ROLLOUT,
}
# What a choice goes with, beside what its option needs to have an effect.
GOES_WITH: dict[tuple[str, Any], dict[str, Any]] = {
    ("munchausen", True): {"double_dqn": False},
    ("replay_compression", "lz4"): {"replay_memory": "1GiB"},
    ("anneal_updates", 20_000): {"n_step_start": 1},
    ("topology", "apex"): {"replay": "prioritized"},
    ("replay", "rollout"): ROLLOUT,
    ("strategy", "all_reduce"): {"local_updates": 1},
    ("algorithm", "a3c"): A3C,
    # All that it needs: they ask for each other.
    ("v_trace", True): A3C,
}
NOT_NORMALIZED = {"normalize_observations": "auto", "normalize_returns": "auto"}
NO_TRACES = {"traces": "none"}
NO_RESETS = {"reset_period": 0}
LOCAL = {"topology": "local"}
ONLINE = {"demonstrations": "", "offline": False, "demonstration_loss": 0.0, "branching": False}
BY_VALUES = {"algorithm": "dqn"}
AS_IT_LEARNS = {"acting_precision": "same"}
SERVED = {"strategy": "parameter_server"}
PLAIN = AS_IT_LEARNS | LOCAL
PLAIN_VALUES = PLAIN | BY_VALUES
IN_8_BITS = {"precision": "float32", "noisy": False, "spectral_norm": False}
# Together, these experiments have every option with a value that is not its default: what each
# says first, for there are options that do not go together.
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "traces": {
        **PLAIN_VALUES,
        **NO_RESETS,
        **ONLINE,
        **NOT_NORMALIZED,
        "n_step": 1,
        "n_step_start": 0,
        "munchausen": False,
        "value_distribution": "none",
    },
    "synchronous": {
        **PLAIN_VALUES,
        **NO_TRACES,
        **NO_RESETS,
        **ONLINE,
        "aggregation": "sync",
        "num_envs_per_worker": None,
        "pull_wire_dtype": "float32",  # which means travel in
        "replay": "recent",
        "munchausen": False,
        "value_distribution": "none",
    },
    "robust": {
        **PLAIN_VALUES,
        **NO_TRACES,
        **NO_RESETS,
        **ONLINE,
        **NOT_NORMALIZED,
        "aggregation": "trimmed_mean",
        "outer_optimizer": "nesterov",
        "vectorization": "async",
        "munchausen": False,
        "value_distribution": "none",
    },
    "munchausen": {
        **PLAIN_VALUES,
        **NO_TRACES,
        **NO_RESETS,
        **ONLINE,
        **NOT_NORMALIZED,
        "aggregation": "async",
        "loss": "huber",
        "value_rescaling": False,
        "value_distribution": "iqn",
    },
    "categorical": {
        **PLAIN_VALUES,
        **NO_TRACES,
        **NO_RESETS,
        **ONLINE,
        **NOT_NORMALIZED,
        "loss": "huber",
        "optimizer": "rmsprop",
        "value_rescaling": False,
        "value_distribution": "c51",
        "munchausen": False,
    },
    "histogram": {
        **IN_8_BITS,
        **LOCAL,
        **BY_VALUES,
        **NO_TRACES,
        **NO_RESETS,
        **ONLINE,
        **NOT_NORMALIZED,
        "pruning": "rigl",
        "push_top_k": 1.0,
        "loss": "huber",
        "optimizer": "adamw",
        "value_distribution": "hl_gauss",
        "munchausen": False,
    },
    "demonstrated": {
        **PLAIN_VALUES,
        **NO_TRACES,
        "branching": False,
        "optimizer": "sgd",
        "pull_wire_dtype": "float32",
        "recurrent_size": 0,
        "offline": False,
        "munchausen": False,
        "value_distribution": "none",
    },
    "offline": {
        **PLAIN_VALUES,
        **NO_TRACES,
        **NOT_NORMALIZED,
        "value_rescaling": False,
        "overlap": "auto",
        "replay": "prioritized",
        "replay_files": False,
        "recurrent_size": 0,
        "munchausen": False,
        "value_distribution": "none",
    },
    "rollout": {
        **PLAIN_VALUES,
        **NO_TRACES,
        **ONLINE,
        **NOT_NORMALIZED,
        "replay": "rollout",
        "anneal_updates": DEFAULTS["anneal_updates"],
        "overlap": "auto",
        "target_update_period": 0,
        "n_step": 1,
        "tau": 0.0,
        "value_distribution": "none",
        "munchausen": False,
        "value_rescaling": False,
        "recurrent_size": 0,
        "replay_capacity": None,
        "replay_memory": "",
        "replay_compression": "none",
        "replay_files": False,
    },
    "policy": {
        **PLAIN,
        **NO_TRACES,
        **NO_RESETS,
        **ONLINE,
        **NOT_NORMALIZED,
        **A3C,
        "overlap": "on",
        "anneal_updates": DEFAULTS["anneal_updates"],
        "n_step_start": 0,
        "gamma_start": 0.0,
        "tau": 0.0,
        "value_distribution": "none",
        "munchausen": False,
        "value_rescaling": False,
        "dueling": False,
        "epsilon_ladder": False,
        "recurrent_size": 0,
        "replay_memory": "",
        "replay_compression": "none",
        "replay_files": False,
    },
    "apex": {
        **AS_IT_LEARNS,
        **BY_VALUES,
        **NO_TRACES,
        **NO_RESETS,
        **ONLINE,
        **NOT_NORMALIZED,
        "aggregation": "async",
        "replay": "prioritized",
        "overlap": "auto",
        "anneal_updates": DEFAULTS["anneal_updates"],
        "n_step_start": 0,
        "gamma_start": 0.0,
        "recurrent_size": 0,
        "value_distribution": "none",
        "value_rescaling": False,
        "munchausen": False,
    },
}
EXPERIMENTS["seed"] = EXPERIMENTS["apex"] | {"topology": "seed", "overlap": "on"}
EXPERIMENTS = {
    **{name: SERVED | {"pruning": "none"} | first for name, first in EXPERIMENTS.items()},
    # As in rounds, without what is about servers.
    "all_reduce": {
        **EXPERIMENTS["synchronous"],
        "strategy": "all_reduce",
        "pruning": "none",
        "local_updates": 1,
        "replay": "prioritized",
        "aggregation": "auto",
        "backup_workers": 0,
        "max_staleness": None,
        "outer_optimizer": "nesterov",
        "outer_learning_rate": None,
        "outer_momentum": None,
        "staleness_decay": 0.0,
        "staleness_cutoff": 0,
        "push_wire_dtype": "float32",
        "push_top_k": 1.0,
        "ps_timeout": DEFAULTS["ps_timeout"],
    },
}


def not_default(field: dataclasses.Field) -> Any:
    """A valid value, so that the defaults of the other options still go with it."""
    if field.name in NOT_DEFAULT:
        return NOT_DEFAULT[field.name]
    if field.metadata["choices"]:
        return next(each for each in field.metadata["choices"] if each != field.default)
    if isinstance(field.default, bool):
        return not field.default
    if isinstance(field.default, int):
        return 2 * field.default or 1
    assert isinstance(field.default, float), f"say a value for {field.name} in NOT_DEFAULT"
    return field.default / 2 or 0.5


def _has_effect(field: dataclasses.Field, values: dict[str, Any]) -> bool:
    """Whether what an option belongs to is there, in an experiment's values."""
    return all(
        values[other] in wanted if wanted else values[other] != DEFAULTS[other]
        for other, wanted in field.metadata["needs"].items()
    )


def beside_it(field: dataclasses.Field, value: Any) -> dict[str, Any]:
    """Other options that this one needs, in the order in which they ask for each other."""
    found: dict[str, Any] = {}
    if not _has_effect(field, DEFAULTS):
        for other, wanted in field.metadata["needs"].items():
            found[other] = wanted[0] if wanted else not_default(FIELDS[other])
    for each in [(field.name, value), *found.items()]:
        found |= GOES_WITH.get(each, {})
    return found


def experiment_of(chosen: dict[str, Any]) -> dict[str, Any]:
    """Every option that goes with what is chosen, with a value that is not its default."""
    values = {name: not_default(field) for name, field in FIELDS.items()} | chosen
    kept = {name for name, field in FIELDS.items() if _has_effect(field, values)}
    return {
        name: value for name, value in values.items() if name in kept and value != DEFAULTS[name]
    }
