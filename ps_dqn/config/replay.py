"""What each worker remembers, and what it learns from."""

import dataclasses

from ps_dqn.config.agent import EXPECTED, Value
from ps_dqn.config.options import option
from ps_dqn.errors import UsageError

# The run's replay where neither a capacity nor a memory is said (transitions).
REPLAY_CAPACITY = 50_000
# Kinds of replay that keep something; replay=rollout does not.
KEPT = ("uniform", "prioritized", "recent")


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
        "Size of the run's replay, of which each worker keeps its share, with topology=apex each "
        "replay server (transitions). Default: "
        f"{REPLAY_CAPACITY:,}, or what fits into replay_memory.",
        low=2,
        needs={"replay": KEPT},
    )
    replay_memory: str = option(
        "",
        "Memory of each worker's replay, with topology=apex of each replay server's, like 2GiB, or "
        "a share like 50% of its container's limit or of its part of this machine. Default: what "
        "its capacity needs.",
    )
    replay_compression: str = option(
        "none",
        "Compression of image observations in replay; needs replay_memory. lz4 needs the extra: "
        'pip install "ps-dqn[compression]".',
        choices=("none", "lz4"),
    )
    replay_files: bool = option(
        False,
        "Keep replay in files under each worker's --worker_dir, with topology=apex under each "
        "replay server's, so that a task that comes back and a run that is resumed have it again.",
    )
    min_replay_size: int = option(
        1_000,
        "The run's replay before the first update; each worker waits for its share (rows that can "
        "be sampled).",
        low=1,
        needs={"replay": KEPT},
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
        needs={"replay": KEPT, "recurrent_size": ()},
    )
    sequence_period: int = option(
        10,
        "With recurrent_size: from one sequence's start to the next (environment steps).",
        low=1,
        needs={"replay": KEPT, "recurrent_size": ()},
    )
    burn_in: int = option(
        10,
        "With recurrent_size: steps before those, which only warm up the state (environment "
        "steps).",
        low=0,
        needs={"replay": KEPT, "recurrent_size": ()},
    )
    traces: str = option(
        "none",
        "With recurrent_size and n_step=1: returns reach on along a sequence, whatever was done "
        "(peng: Q(λ), Peng and Williams 1994), or as far as it was the greedy action (retrace, "
        "Munos et al. 2016).",
        choices=("none", "peng", "retrace"),
        needs={"replay": KEPT, "recurrent_size": (), "n_step": (1,)},
    )
    sequence_lambda: float = option(
        0.9,
        "λ of traces: 0 bootstraps from the next state, 1 from the last of the sequence.",
        low=0.0,
        high=1.0,
        needs={"traces": ("peng", "retrace"), "replay": KEPT, "recurrent_size": (), "n_step": (1,)},
    )

    def check_traces(self, value: Value) -> None:
        """Refuses traces of what has none.

        Raises:
            UsageError: with the flags and what to do.
        """
        if self.traces == "none":
            return
        if value.value_distribution not in EXPECTED or value.munchausen:
            raise UsageError(
                f"--traces={self.traces}: is for expected returns, so for "
                f"--value_distribution=none or hl_gauss, without --munchausen; leave it out"
            )
        if self.traces == "retrace" and value.target == "expected_sarsa":
            raise UsageError(
                "--traces=retrace: is for the greedy policy, of which --target=expected_sarsa is "
                "none: use peng, or another --target"
            )
