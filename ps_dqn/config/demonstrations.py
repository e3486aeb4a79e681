"""Transitions that others made, and how they are learned from."""

import dataclasses

from ps_dqn.config.agent import Network, Value
from ps_dqn.config.learning import Learning
from ps_dqn.config.options import option
from ps_dqn.config.replay import KEPT, Replay
from ps_dqn.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Demonstrations:
    """Transitions that others made, and how they are learned from."""

    demonstrations: str = option(
        "",
        "File of transitions that others made (.npz), or minari:NAME of a data set, which every "
        "worker must be able to read: each keeps all of them for good, beside its replay. Arrays "
        "observations, actions, rewards and terminated, one row a step, in order; truncated and "
        "next_observations where there are.",
        needs={"replay": KEPT},
    )
    demonstration_share: float = option(
        0.25,
        "Share of each minibatch that is drawn from the demonstrations: one transition at least, "
        "and not all (Paine et al. 2019).",
        low=0.0,
        high=0.99,
        needs={"demonstrations": (), "offline": (False,)},
    )
    offline: bool = option(
        False,
        "Learn from the demonstrations alone: environments are stepped in evaluations only, and "
        "env steps count on as if they were made, one for each update_period of updates.",
        needs={"demonstrations": (), "overlap": ("auto", "off")},
    )
    demonstration_loss: float = option(
        0.0,
        "Weight of DQfD's large-margin loss, which keeps the demonstrated action above the others "
        "(Hester et al. 2018).",
        low=0.0,
        needs={"demonstrations": ()},
    )
    demonstration_margin: float = option(
        0.8,
        "By how much, in units of the values as they are learned.",
        low=0.0,
        needs={"demonstration_loss": (), "demonstrations": ()},
    )
    cql_alpha: float = option(
        0.0,
        "Weight of CQL(H)'s regulariser, which keeps values of actions that were not taken from "
        "growing (Kumar et al. 2020).",
        low=0.0,
        needs={"replay": KEPT},
    )

    def check_beside(
        self, network: Network, value: Value, learning: Learning, replay: Replay
    ) -> None:
        """Refuses networks that cannot learn from them, and what has no effect beside them.

        Raises:
            UsageError: with the flags, their values and what to do.
        """
        if self.demonstrations and network.recurrent_size:
            raise UsageError(
                f"--demonstrations={self.demonstrations}: has no recurrent states, with which "
                f"--recurrent_size={network.recurrent_size} begins its sequences; leave one of "
                f"them out"
            )
        if self.demonstrations and not self.offline and learning.batch_size < 2:
            raise UsageError(
                f"--batch_size={learning.batch_size}: with --demonstrations, 2 or more: one of "
                f"them and one of experience at least"
            )
        if self.offline and (replay.replay_files or replay.replay == "recent"):
            flag = "--replay_files=true" if replay.replay_files else "--replay=recent"
            raise UsageError(
                f"{flag}: is for what workers collect, and with --offline they collect nothing; "
                f"leave one of them out"
            )
        wanted = {
            "normalize_observations=on": network.normalize_observations == "on",
            "normalize_returns=on": value.normalize_returns == "on",
        }
        for flag, is_wanted in wanted.items():
            if self.offline and is_wanted:
                raise UsageError(
                    f"--{flag}: goes by what workers see of their environments, and with "
                    f"--offline they see none; leave one of them out"
                )
