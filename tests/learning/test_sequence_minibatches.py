"""Sequences become losses: burn-in, stored state, and priorities."""

from typing import Any

import numpy as np
import pytest
from support.four_numbers import (
    LAST,
    MODES,
    ONLINE,
    RECURRENT,
    SIZES,
    STATE,
    TARGET,
    bonus,
    changed,
    close,
    learn,
    next_value,
    one,
    random_sequences,
    slopes,
    squared_source,
)

from ps_dqn.replay.batch import Sequences


def memories(w: np.ndarray, frozen: np.ndarray, batch: Sequences, item: int) -> list[float]:
    """What the network holds after each row of one sequence; `frozen` serves the burn-in."""
    (h, *last), held = batch.states[item].astype(np.float64), []
    for row, x in enumerate(batch.observations[item]):
        keep, add = (frozen if row < SIZES["burn_in"] else w)[:2]
        if batch.starts[item, row]:
            h, last = 0.0, [0.0, 0.0]
        h = keep * h + add * float(x[0] + LAST @ last)
        last = [batch.actions[item, row] + 1, batch.rewards[item, row]]
        held.append(h)
    return held


# λ of traces, which are for one-step targets.
LAMBDA = 0.8
TRACED: dict[str, dict[str, Any]] = {
    name: {"traces": name.split()[-1], "sequence_lambda": LAMBDA, "double_dqn": "double" in name}
    for name in ("peng", "double peng", "retrace", "double retrace")
}


def carried(
    mode: str, batch: Sequences, item: int, targets: list[float], after: list[tuple[float, int]]
) -> list[float]:
    """One-step targets of a sequence and the errors of later steps, as Munos et al. 2016 sum them.

    An error counts as far as the episode goes on from step to step, and with Retrace as far as each
    action is greedy. `after` has the value of what each step led to, and which action is greedy
    there.
    """
    found = list(targets)
    for t in range(len(found)):
        share = 1.0
        for k in range(t + 1, len(found)):
            value, greedy = after[k - 1]
            share *= batch.discounts[item, k - 1] * LAMBDA * (batch.weights[item, k] > 0)
            if "retrace" in mode:
                share *= batch.actions[item, SIZES["burn_in"] + k] == greedy
            found[t] += share * (targets[k] - value)
    return found


def reference_errors(w: np.ndarray, batch: Sequences, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Target less value, [3, 4], and values, of sequences; the targets are ONLINE's."""
    errors, values = np.zeros((2, 3, 4))
    for item in range(3):
        held = memories(w, ONLINE, batch, item)
        frozen, other = (memories(each, each, batch, item) for each in (ONLINE, TARGET))
        targets: list[float] = []
        after: list[tuple[float, int]] = []
        for t in range(4):
            row, end = SIZES["burn_in"] + t, batch.bootstraps[item, t]
            action = batch.actions[item, row]
            of_target, of_online = other[end] * TARGET[2:], frozen[end] * ONLINE[2:]
            value = next_value(mode, of_target, of_online)
            after.append((value, int(np.argmax(of_online if "double" in mode else of_target))))
            targets.append(batch.returns[item, t] + batch.discounts[item, t] * value)
            if mode == "munchausen":
                targets[t] += bonus(other[row] * TARGET[2:], action)
            values[item, t] = held[row] * w[2 + action]
        if mode in TRACED:
            targets = carried(mode, batch, item, targets, after)
        errors[item] = targets - values[item]
    return errors, values


@pytest.mark.parametrize("mode", [*MODES, *TRACED])
@pytest.mark.parametrize("index", [0, 1])
def test_sequences_against_a_reference(mode: str, index: int) -> None:
    sizes = {"n_step": 1} if mode in TRACED else {}
    batch = random_sequences(np.random.default_rng(7), **sizes)
    assert batch.starts[..., :3].any(), "within the burn-in"
    assert batch.starts[..., 4:].any()
    options = RECURRENT | sizes | (MODES | TRACED)[mode]
    found, gradient = learn(squared_source(STATE, **options), batch, index)
    minibatch = one(batch, index)

    def loss(w: np.ndarray) -> float:
        squares = reference_errors(w, minibatch, mode)[0] ** 2
        return float(np.mean(minibatch.weights * squares / 2))

    errors, values = reference_errors(ONLINE, minibatch, mode)
    assert float(found.loss) == close(loss(ONLINE))
    assert float(found.q_value) == close(values.mean())
    # The burn-in moves no parameters, nor does what the online network says of bootstrap states.
    assert gradient == close(slopes(loss, ONLINE))
    assert np.abs(gradient).min() > 1e-3
    sizes = [np.abs(row[w > 0]) for row, w in zip(errors, minibatch.weights, strict=True)]
    assert list(map(len, sizes)) == [4, 3, 4], "steps of weight 0 do not count"
    assert found.errors.numpy() == close([0.9 * each.max() + 0.1 * each.mean() for each in sizes])


@pytest.mark.slow
def test_the_stored_state_and_the_burn_in_matter_until_an_episode_begins() -> None:
    batch = random_sequences(np.random.default_rng(7))
    batch = batch._replace(starts=np.zeros_like(batch.starts))
    source = squared_source(STATE, **RECURRENT)
    loss, gradient = learn(source, batch, 0)
    past = [("observations", (0, 0, 1, 0)), ("actions", (0, 0, 1)), ("rewards", (0, 0, 1))]
    past += [("states", (0, 0, number)) for number in range(STATE)]
    for name, index in past:
        other_loss, other_gradient = learn(source, changed(batch, name, index, 3.0), 0)
        assert abs(float(other_loss.loss - loss.loss)) > 1e-3
        assert np.abs(other_gradient - gradient).max() > 1e-3
    # Row 2 is the burn-in's last, row 3 the first that is learned from.
    for row in (2, 3):
        begun = changed(batch, "starts", (slice(None), slice(None), row), True)
        loss, gradient = learn(source, begun, 0)
        for name, index in past:
            other_loss, other_gradient = learn(source, changed(begun, name, index, 3.0), 0)
            assert float(other_loss.loss) == float(loss.loss)
            assert (other_gradient == gradient).all()


def test_a_burn_in_is_a_stored_state_found_by_the_same_parameters() -> None:
    batch = random_sequences(np.random.default_rng(7))
    source = squared_source(STATE, **RECURRENT)
    found, gradient = learn(source, batch, 1, target=ONLINE)
    held = [memories(ONLINE, ONLINE, one(batch, 1), item)[2] for item in range(3)]
    last = np.array([held, batch.actions[1, :, 2] + 1, batch.rewards[1, :, 2]])
    later = batch._replace(
        observations=batch.observations[:, :, 3:],
        starts=batch.starts[:, :, 3:],
        actions=batch.actions[:, :, 3:],
        rewards=batch.rewards[:, :, 3:],
        states=np.stack([np.zeros((3, STATE)), last.T]).astype(np.float32),
        bootstraps=batch.bootstraps - 3,
    )
    without = squared_source(STATE, **RECURRENT | {"burn_in": 0})
    expected, expected_gradient = learn(without, later, 1, target=ONLINE)
    assert float(found.loss) == close(float(expected.loss))
    assert gradient == close(expected_gradient)


def test_steps_of_weight_zero_leave_neither_gradient_nor_priority() -> None:
    row, after = (0, 1, SIZES["burn_in"] + 1), (0, 1, SIZES["burn_in"] + 2)
    # An episode begins after a row that is no transition, so nobody remembers what was done in it.
    batch = changed(random_sequences(np.random.default_rng(7)), "starts", after, True)
    source = squared_source(STATE, **RECURRENT)
    found, gradient = learn(source, batch, 0)
    other = changed(batch, "returns", (0, 1, 1), 50.0)
    other = changed(other, "actions", row, 1 - batch.actions[row])
    same, same_gradient = learn(source, other, 0)
    assert (same_gradient == gradient).all()
    assert (same.errors.numpy() == found.errors.numpy()).all()
    # The same change counts where there is a weight.
    counted, _ = learn(source, changed(batch, "returns", (0, 1, 2), 50.0), 0)
    assert counted.errors[1] > 40
    nothing = changed(batch, "weights", 0, 0.0)
    found, gradient = learn(source, nothing, 0)
    assert found.errors.numpy().tolist() == [0.0] * 3
    assert gradient.tolist() == [0.0] * 4
