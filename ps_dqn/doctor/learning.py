"""Whether a run learns from what it sees."""

import math

from ps_dqn.config import scaling
from ps_dqn.doctor.patient import Finding, Patient, number, rounded, smaller_step

# Times a transition should be learned from, in the mean: as DQN does it, and what is far off.
USUAL_RATIO, LEAST_RATIO, MOST_RATIO = 8.0, 0.5, 64.0
# Q-values that are so many times the largest return are not of returns any more.
DIVERGED = 10.0
MOST_OUTSIDE = 0.1  # share of the episodes
FEW_EPISODES = 20  # in a replay
MOST_DORMANT = 0.3  # share of the hidden units


def learns_late(patient: Patient) -> Finding | None:
    """Most of the run is over before the replay is large enough to learn from."""
    least, total = patient.config.replay.min_replay_size, patient.total_env_steps
    if not patient.replays or least <= total / 2:
        return None
    return Finding(
        "learns_late",
        f"learning begins after --min_replay_size={least:,} of {total:,} env steps; "
        f"{number(patient.updates)} updates so far",
        f"--min_replay_size={max(total // 20, 1)}",
        "most of the run is learned from",
    )


def not_finite(patient: Patient) -> Finding | None:
    """Numbers have left what can be written."""
    config = patient.config
    may_keep = config.parameter_server.outlier_gate or config.precision.scales_loss
    kept = 0 if may_keep else patient.total("push/withheld")
    broken = [
        name
        for name in ("train/td_loss", "train/q_values", "train/grad_norm")
        if not all(map(math.isfinite, patient.run.values(name)))
    ]
    if not kept and not broken:
        return None
    what = f"{', '.join(broken)} not finite" if broken else "loss or gradient not finite"
    return Finding(
        "not_finite",
        f"{what}: workers kept back {kept:,.0f} pushes; look at the environment's rewards too",
        f"--learning_rate={smaller_step(patient, 10)}",
        "the loss stays finite; if not, rewards are to blame",
    )


def q_values_diverge(patient: Patient) -> Finding | None:
    """Values feed on their own bootstraps."""
    config, values = patient.config, patient.run.values("train/q_values")
    finite = [abs(value) for value in values if math.isfinite(value)]
    if config.value.munchausen or not patient.returns:
        return None
    furthest, largest = max(finite, default=0.0), max(map(abs, patient.returns))
    if not furthest > DIVERGED * max(largest, 1.0):
        return None
    if not config.learning.tau and not config.learning.target_update_period:
        period = max(128, _at_once(patient))
        change, expect = f"--target_update_period={period}", "bootstraps stand still for a while"
    elif not config.value.double_dqn and not config.environment.branching:
        change, expect = "--double_dqn=true", "the largest error is not chosen as the target"
    else:
        change = f"--learning_rate={smaller_step(patient, 4)}"
        expect = "values follow their targets more slowly, and stay near the returns"
    return Finding(
        "q_values_diverge",
        f"Q-values were as far as {number(furthest)} from 0 in the mean (now "
        f"{number(values[-1])}), and no return was beyond {number(largest)}",
        change,
        expect,
    )


def returns_leave_the_atoms(patient: Patient) -> Finding | None:
    """What is learned ends where the atoms end."""
    value, share = patient.config.value, patient.late("train/returns_outside_atoms")
    if not value.spans_returns or not share > MOST_OUTSIDE:
        return None
    low, high = min(patient.returns, default=0.0), max(patient.returns, default=0.0)
    if low < value.v_min and value.v_min - low > high - value.v_max:
        change = f"--v_min={rounded(2 * min(_discounted(patient, low), value.v_min))}"
    else:
        change = f"--v_max={rounded(2 * max(_discounted(patient, high), value.v_max))}"
    return Finding(
        "returns_leave_the_atoms",
        f"{share:.0%} of late episodes had discounted returns outside of --v_min={value.v_min:g} "
        f"to --v_max={value.v_max:g} (returns were {number(low)} to {number(high)})",
        change,
        "good and very good actions can be told apart",
    )


def _discounted(patient: Patient, total: float) -> float:
    """A return with its discount, if the episode pays evenly; an upper bound where it pays late."""
    length = patient.env_steps / max(patient.episodes, 1.0)
    gamma = patient.config.learning.gamma
    if gamma == 1.0 or length <= 1.0:
        return total
    return total * (1.0 - gamma**length) / ((1.0 - gamma) * length)


def replay_ratio(patient: Patient) -> Finding | None:
    """Each transition is learned from hardly ever, or far too often."""
    config = patient.config
    collected = patient.env_steps - config.replay.min_replay_size
    if not patient.replays or not patient.sequential_updates or collected < patient.env_steps / 2:
        return None
    each = config.learning.batch_size
    if config.network.recurrent_size:
        each *= config.replay.sequence_length
    ratio = each * patient.sequential_updates / collected
    if LEAST_RATIO <= ratio <= MOST_RATIO:
        return None
    return Finding(
        "replay_ratio",
        f"each transition is learned from {number(ratio)} times: {number(each)} for each update, "
        f"an update every {number(config.parameter_server.update_period)} env steps",
        f"--update_period={rounded(each / USUAL_RATIO)}",
        f"{USUAL_RATIO:g} times, as DQN does it: "
        + ("more is learned from each step" if ratio < 1 else "less overfitting, and faster"),
    )


def gradients_are_clipped(patient: Patient) -> Finding | None:
    """The size of gradients does not count."""
    limit, norms = patient.config.learning.max_grad_norm, patient.run.values("train/grad_norm")
    late, mean = norms[-max(len(norms) // 3, 1) :], patient.late("train/grad_norm")
    is_known = len(norms) >= 3 and math.isfinite(mean)
    if not limit or not is_known or not min(late) > limit:
        return None
    return Finding(
        "gradients_are_clipped",
        f"gradients are clipped all the time: their norm is {number(mean)} in the mean, "
        f"--max_grad_norm is {limit:g}",
        f"--max_grad_norm={rounded(2 * max(late))}",
        "only outliers are clipped; a surprising minibatch counts more than a usual one",
    )


def target_never_updated(patient: Patient) -> Finding | None:
    """What is bootstrapped from is the first, random network."""
    learning, updates = patient.config.learning, patient.sequential_updates
    period = learning.target_update_period
    if learning.tau or not period or not updates or updates >= period:
        return None
    if not patient.is_over and patient.progress < 0.5:
        return None
    return Finding(
        "target_never_updated",
        f"the target network is still the first one: {number(updates)} sequential updates, "
        f"--target_update_period is {period:,}",
        f"--target_update_period={max(int(updates) // 50, _at_once(patient))}",
        "values reach back further than the next reward",
    )


def replay_too_small(patient: Patient) -> Finding | None:
    """What was learned is forgotten with its experience."""
    size, episodes = patient.run.last("replay/size"), patient.episodes
    if not patient.replays or not episodes or math.isnan(size):
        return None
    length = patient.env_steps / episodes
    kept = size / length
    if kept >= FEW_EPISODES or size > patient.env_steps / 10:
        return None
    return Finding(
        "replay_too_small",
        f"the replay holds {number(size)} transitions, the last {number(kept)} episodes of "
        f"{number(length)} steps each, of {episodes:,.0f} so far",
        f"--replay_capacity={rounded(100 * length)}",
        "a hundred episodes are learned from, so one bad one does not decide",
    )


def dormant_units(patient: Patient) -> Finding | None:
    """Much of the network does nothing."""
    share = patient.dormant_units
    if not share > MOST_DORMANT:
        return None
    return Finding(
        "dormant_units",
        f"{share:.0%} of the hidden units hardly ever answer, in the newest checkpoint",
        f"--learning_rate={smaller_step(patient, 3)}",
        "fewer units are driven to where they have no gradient; the network can still learn",
    )


def _at_once(patient: Patient) -> int:
    """Sequential updates that come together: the target cannot be copied between them."""
    return math.ceil(scaling.sequential_per_version(patient.config, patient.num_workers))


RULES = (
    learns_late,
    not_finite,
    q_values_diverge,
    returns_leave_the_atoms,
    replay_ratio,
    gradients_are_clipped,
    target_never_updated,
    replay_too_small,
    dormant_units,
)
