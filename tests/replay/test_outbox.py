"""What actors hand over: every row once, with the error that its transition has for the actor."""

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, Step
from ps_dqn.replay import parcels
from ps_dqn.replay.outbox import Outbox
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED

ENVS, ACTIONS, GAMMA, N = 4, 3, 0.9, 3
SPEC = EnvironmentSpec((2,), np.dtype(np.float32), ACTIONS, None)


def config(**options) -> Config:
    shown = {"num_envs": ENVS, "gamma": GAMMA, "n_step": N, "min_replay_size": 8}
    return Config.from_values({"topology": "apex", "replay": "prioritized", **shown, **options})


def play(rng: np.random.Generator, steps: int, same_step: bool) -> list[Step]:
    """Steps of episodes that end at random; whether they are left at once, or by a reset step."""
    made, resetting = [], np.zeros(ENVS, np.bool_)
    for number in range(steps):
        ends = (rng.random(ENVS) < 0.25) & ~resetting
        terminated = ends & (rng.random(ENVS) < 0.5)
        final = np.flatnonzero(ends) if same_step else np.zeros(0, np.int64)
        made.append(
            Step(
                np.float32(number) + np.array([[env, env] for env in range(ENVS)], np.float32) / 8,
                rng.integers(ACTIONS, size=ENVS),
                np.where(resetting, 0.0, rng.normal(size=ENVS)),
                terminated,
                ends & ~terminated,
                ~resetting,
                np.zeros((ENVS, 2), np.float32),
                final,
                np.full((len(final), 2), -number, np.float32),
                values=rng.normal(size=(ENVS, ACTIONS)).astype(np.float32),
            )
        )
        resetting = np.zeros(ENVS, np.bool_) if same_step else ends
    return made


def error(steps: list[Step], at: int, env: int) -> float:
    """|TD error| of the n-step transition that begins here, step by step."""
    first, total, discount = steps[at], 0.0, 1.0
    assert first.values is not None
    for i in range(at, at + N):
        step, following = steps[i], steps[i + 1]
        total += discount * step.rewards[env]
        discount *= GAMMA
        if step.terminated[env]:
            break
        # Where it leaves an episode at once, the network has not seen the last state.
        shown = step if env in step.final_envs else following
        if step.truncated[env] or i == at + N - 1:
            assert shown.values is not None
            total += discount * shown.values[env].max()
            break
    return abs(total - first.values[env, first.actions[env]])


@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize("servers", [1, 3])
def test_errors_are_of_the_actors_own_values_and_returns(same_step: bool, servers: int) -> None:
    steps = play(np.random.default_rng(4), 40, same_step)
    outbox = Outbox(config(), SPEC, servers)
    seen = 0
    for number, step in enumerate(steps):
        outbox.append(step)
        if number % 7 != 6:
            continue
        messages = outbox.take()
        outbox.handed_over(0, is_lacking=False)
        for server, message in enumerate(messages):
            envs = range(server, ENVS, servers)
            parcel = parcels.unpack(message, _layout(), len(envs))
            for s, j in np.ndindex(*parcel.actions.shape):
                at, env = seen + s, envs[j]
                made = steps[at]
                assert parcel.frames[s, j].tolist() == made.observations[env].tolist()
                assert parcel.actions[s, j] == made.actions[env]
                assert parcel.rewards[s, j] == pytest.approx(made.rewards[env], rel=1e-6)
                end = TERMINATED if made.terminated[env] else TRUNCATED
                wanted = end if made.terminated[env] | made.truncated[env] else CONTINUES
                assert parcel.ends[s, j] == wanted
                assert parcel.is_transition[s, j] == made.is_transition[env]
                if made.is_transition[env]:
                    assert parcel.errors[s, j] == pytest.approx(error(steps, at, env), rel=1e-5)
        seen = number + 1 - N
    assert seen > 20


def test_a_row_is_held_back_until_its_error_is_known() -> None:
    steps = play(np.random.default_rng(1), 6, same_step=False)
    outbox = Outbox(config(), SPEC, 1)
    for step in steps[:N]:
        outbox.append(step)
    assert [message.size for message in outbox.take()] == [0]

    outbox.append(steps[N])

    [message] = outbox.take()
    assert len(parcels.unpack(message, _layout(), ENVS).actions) == 1


def test_what_nobody_has_answered_is_handed_over_again_and_the_rest_after_it() -> None:
    steps = play(np.random.default_rng(1), 12, same_step=False)
    outbox = Outbox(config(), SPEC, 2)
    for step in steps[: N + 2]:
        outbox.append(step)
    taken = outbox.take()  # the closure is cut off here
    for step in steps[N + 2 :]:
        outbox.append(step)

    again = outbox.take()
    outbox.handed_over(0, is_lacking=True)
    rest = outbox.take()

    assert [message.tobytes() for message in again] == [message.tobytes() for message in taken]
    first, after = (parcels.unpack(each[0], _layout(), ENVS // 2) for each in (again, rest))
    assert after.number == first.number + 1
    assert len(first.actions) + len(after.actions) == len(steps) - N


def test_nothing_has_no_number() -> None:
    steps = play(np.random.default_rng(1), N + 2, same_step=False)
    outbox = Outbox(config(), SPEC, 1)
    numbers = []
    for step in steps:
        outbox.append(step)
        [message] = outbox.take()
        outbox.handed_over(0, is_lacking=True)
        if message.size:
            numbers.append(parcels.unpack(message, _layout(), ENVS).number)

    assert numbers == [1, 2]


def _layout():
    from ps_dqn.replay_server import shares

    return shares.planned(config(), SPEC, 0, 1).layout
