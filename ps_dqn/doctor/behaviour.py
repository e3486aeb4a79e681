"""What a run does with what it knows: how it explores, and what its evaluations say."""

import math

from ps_dqn.config import options
from ps_dqn.doctor.patient import Finding, Patient, number, smaller_step

HIGH_EPSILON = 0.3
EVALUATIONS = 3  # before anything is said of them


def epsilon_ends_early(patient: Patient) -> Finding | None:
    """Exploration is over before anything is learned."""
    exploration, total = patient.config.exploration, patient.total_env_steps
    if exploration.epsilon_schedule == "constant" or patient.config.network.noisy:
        return None
    steps = exploration.decay(total)
    least = patient.config.replay.min_replay_size if patient.replays else 0
    if steps > max(least, total / 1000) or patient.state == "solved":
        return None
    first = f", and the first update needs {least:,}" if least else ""
    return Finding(
        "epsilon_ends_early",
        f"epsilon was at {exploration.epsilon_end:g} after {steps:,} of {total:,} env steps{first}",
        "--epsilon_decay_steps=10%",
        "actions are tried while values are learned",
    )


def epsilon_stays_high(patient: Patient) -> Finding | None:
    """The network's own actions are hardly ever taken."""
    exploration, epsilon = patient.config.exploration, patient.run.last("train/epsilon")
    has_ended = patient.is_over and patient.state not in ("stopped", "solved")
    is_late = patient.progress > 0.8 or has_ended
    if not is_late or not epsilon > HIGH_EPSILON or exploration.epsilon_ladder:
        return None
    if exploration.epsilon_schedule == "constant":
        change = "--epsilon_schedule=linear"
    elif exploration.epsilon_end > HIGH_EPSILON:
        change = "--epsilon_end=0.05"
    else:
        change = "--epsilon_decay_steps=10%"
    return Finding(
        "epsilon_stays_high",
        f"{epsilon:.0%} of the actions were still random after {patient.env_steps:,.0f} env steps",
        change,
        "what is collected is what the network would do, so it learns of its own mistakes",
    )


def no_evaluations(patient: Patient) -> Finding | None:
    """Nobody knows what the network is worth."""
    if patient.evaluations or not patient.is_over or not patient.env_steps:
        return None
    return Finding(
        "no_evaluations",
        f"there is no evaluation in {patient.env_steps:,.0f} env steps; --eval_period is "
        f"{patient.config.run.eval_period:,}",
        f"--eval_period={max(int(patient.env_steps) // 10, 1)}",
        "ten evaluations, and a best checkpoint",
    )


def never_beyond_random(patient: Patient) -> Finding | None:
    """Evaluations are no better than random actions."""
    found, random = patient.evaluations, patient.at_random
    if len(found) < EVALUATIONS or math.isnan(random):
        return None
    if max(found) > random + 0.1 * abs(random):
        return None
    seen = (
        f"the best of {len(found)} evaluations is {number(max(found))}, and random actions made "
        f"{number(random)}"
    )
    exploration, total = patient.config.exploration, patient.total_env_steps
    if len(set(patient.returns)) == 1 and exploration.epsilon_schedule != "constant":
        searched = exploration.decay(total) / total
        return Finding(
            "never_beyond_random",
            f"{seen}: no episode was ever better than another",
            f"--epsilon_decay_steps={'50%' if searched < 0.5 else '100%'}",
            "a longer search may find a reward; if not, the environment needs a denser one",
        )
    return Finding(
        "never_beyond_random",
        seen,
        f"--learning_rate={smaller_step(patient, 3)}",
        "steps that are too long undo each other; evaluations rise within a few periods",
    )


def learning_collapses(patient: Patient) -> Finding | None:
    """What was learned once is lost."""
    found, random = patient.evaluations, patient.at_random
    if len(found) < EVALUATIONS + 1 or math.isnan(random):
        return None
    best, last = max(found), max(found[-2:])
    if not best > random + 0.5 * abs(random) or last > random + 0.5 * (best - random):
        return None
    return Finding(
        "learning_collapses",
        f"evaluations fell from {number(best)} to {number(last)} at the end; random actions made "
        f"{number(random)}",
        f"--learning_rate={smaller_step(patient, 3)}",
        "what is learned stays; checkpoints/best.npz has the best until now",
    )


def learning_rate_ends_early(patient: Patient) -> Finding | None:
    """Steps are tiny for most of the run."""
    learning, total = patient.config.learning, patient.total_env_steps
    if learning.learning_rate_schedule == "constant" or patient.state == "solved":
        return None
    steps = options.env_steps(learning.learning_rate_decay_steps, total)
    is_tiny = learning.learning_rate_end < learning.learning_rate / 20
    if not is_tiny or steps > total / 10 or patient.env_steps < 2 * steps:
        return None
    return Finding(
        "learning_rate_ends_early",
        f"the step size fell from {learning.learning_rate:g} to {learning.learning_rate_end:g} in "
        f"the first {steps:,} of {total:,} env steps",
        "--learning_rate_decay_steps=80%",
        "learning goes on for most of the run",
    )


RULES = (
    epsilon_ends_early,
    epsilon_stays_high,
    no_evaluations,
    never_beyond_random,
    learning_collapses,
    learning_rate_ends_early,
)
