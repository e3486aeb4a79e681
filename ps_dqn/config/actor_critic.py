"""What is learned of a policy, where actions are not chosen by their values."""

import dataclasses

from ps_dqn.config.agent import Network, Value
from ps_dqn.config.exploration import Exploration
from ps_dqn.config.options import option
from ps_dqn.config.replay import Replay
from ps_dqn.config.run import ParameterServer
from ps_dqn.errors import UsageError

_NEEDED = {"algorithm": ("a3c",)}


@dataclasses.dataclass(frozen=True)
class ActorCritic:
    """A policy, and the values of states that say which actions it should take more often."""

    entropy_bonus: float = option(
        0.01,
        "What the policy's entropy counts in the loss, so that it does not settle too early (per "
        "nat).",
        low=0.0,
        needs=_NEEDED,
    )
    value_weight: float = option(
        0.5, "What the loss of the states' values counts beside the policy's.", low=0, needs=_NEEDED
    )
    v_trace: bool = option(
        False,
        "Correct for steps made by an older policy than the one that learns from them (IMPALA, "
        "Espeholt et al. 2018): with overlap=on, or local_updates above 1.",
        needs=_NEEDED,
    )
    rho_clip: float = option(
        1.0,
        "Largest weight of a step by how much likelier the policy makes it than the one that acted "
        "did.",
        low=0.0,
        needs={"v_trace": (True,), **_NEEDED},
    )
    trace_clip: float = option(
        1.0,
        "Largest share of what later steps say, likewise.",
        low=0.0,
        needs={"v_trace": (True,), **_NEEDED},
    )

    def check_beside(
        self,
        network: Network,
        value: Value,
        replay: Replay,
        exploration: Exploration,
        parameter_server: ParameterServer,
    ) -> None:
        """Refuses what does not go with a policy that is learned.

        Raises:
            UsageError: with the flags and what to do.
        """
        if not value.learns_policy:
            return
        is_old = parameter_server.overlap == "on" or parameter_server.local_updates > 1
        epsilons = exploration.epsilon_start, exploration.epsilon_end
        unmet = {
            f"--replay={replay.replay}": (
                replay.replay == "rollout",
                "it learns from the steps just made: say --replay=rollout",
            ),
            "--dueling=true": (not network.dueling, "it has the value of a state: leave it out"),
            f"--epsilon_start={epsilons[0]:g} --epsilon_end={epsilons[1]:g}": (
                epsilons == (0.0, 0.0),
                "the policy explores by itself: say 0 for both",
            ),
            "--epsilon_ladder=true": (not exploration.epsilon_ladder, "leave it out"),
            "--overlap=on": (
                parameter_server.overlap != "on" or self.v_trace,
                "it would learn from steps of an older policy as if they were its own: say "
                "--v_trace, or leave it out",
            ),
            "--v_trace=true": (
                is_old or not self.v_trace,
                "every step is of the policy that learns from it, so it has no effect: say "
                "--overlap=on or a larger --local_updates, or leave it out",
            ),
        }
        for flag, (is_met, what_to_do) in unmet.items():
            if not is_met:
                raise UsageError(f"{flag}: does not go with --algorithm=a3c; {what_to_do}")
