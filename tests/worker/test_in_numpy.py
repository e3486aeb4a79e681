"""Several steps for one call, against as many calls of one step each."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support import small_networks
from support.option_values import A3C
from support.small import make_closures
from support.worker_calls import Worker

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.policy import numpy_policy, numpy_steps
from ps_dqn.policy.numpy_policy import NumPyPolicy
from ps_dqn.worker.calls import Acted, Acting, Playing
from ps_dqn.worker.playing import in_numpy

CARTPOLE: dict[str, Any] = {
    **{"env_id": "CartPole-v1", "env_kwargs": "{}", "min_replay_size": 30},
    **{"epsilon_start": 0.3, "epsilon_end": 0.3, "hidden_sizes": (8,)},
}


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    made = [Worker(**CARTPOLE) for _ in range(2)]
    yield made
    for worker in made:
        worker.host.close()


@pytest.fixture(scope="module")
def network():
    config = Worker(**CARTPOLE).config
    return networks.build(
        config.network, config.value, environments.describe(config.environment), 0
    )


@pytest.fixture(scope="module")
def vector(network) -> np.ndarray:
    return small_networks.random_vector(network)


def one_by_one(worker: Worker, method: str, shown: Any, policy: NumPyPolicy, vector: Any) -> Any:
    weights = policy.weights(vector)
    while shown[-1] > 0:  # should_act, or episodes
        values = policy.values(weights, shown.observations)
        acted = Acted(numpy_policy.best(values, shown.masks), shown.state, values=values)
        shown = worker.within(method, *acted)
    return shown


def at_once(worker: Worker, method: str, program: bytes, vector: np.ndarray) -> list[Any]:
    """What each call returned, until nothing was to be done."""
    found = [worker.within(method, vector, program)]
    while found[-1][-1] > 0:
        found.append(worker.within(method, vector, program))
    return found


def equal(one: Acting | Playing, other: Acting | Playing) -> bool:
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


def test_it_collects_what_steps_one_by_one_do(workers: list[Worker], network, vector) -> None:
    program = numpy_steps.program(network)
    for worker in workers:
        worker.begin()
    one, other = workers
    plan = one.pull()
    other.pull()
    expected = one_by_one(one, "step", plan.acting, NumPyPolicy(program), vector)
    assert expected.step > 0

    *_, found = at_once(other, "steps", program.encode(), vector)

    assert equal(found, expected)
    assert one.report().env_steps == other.report().env_steps > 0


def test_it_plays_what_steps_one_by_one_do(workers: list[Worker], network, vector) -> None:
    program = numpy_steps.program(network)
    one, other = workers
    shown = one.begin_evaluation(3)
    other.begin_evaluation(3)
    expected = one_by_one(one, "evaluate_step", shown, NumPyPolicy(program), vector)

    *_, found = at_once(other, "evaluate_steps", program.encode(), vector)

    assert equal(found, expected)
    returns = [worker.within("evaluate_end").returns for worker in workers]
    np.testing.assert_array_equal(*returns)
    assert returns[0].min() > 1


def test_a_call_comes_back_soon(
    workers: list[Worker], network, vector, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = numpy_steps.program(network).encode()
    one, other = workers
    for worker in workers:
        worker.begin_evaluation(3)
    [whole] = at_once(one, "evaluate_steps", program, vector)

    monkeypatch.setattr(in_numpy, "AT_ONCE", 1e-9)
    found = at_once(other, "evaluate_steps", program, vector)

    assert len(found) > 5
    assert equal(found[-1], whole)


def test_the_values_of_all_actions_go_along_for_first_priorities(network, vector) -> None:
    shown = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    states, masks = np.zeros((6, 0), np.float32), np.ones((6, 0), np.bool_)
    given: list[Acted] = []

    def step(acted: Acted) -> Playing:
        given.append(acted)
        return Playing(shown, states, masks, np.int32(3 - len(given)))

    program = numpy_steps.program(network).encode()
    first = Playing(shown, states, masks, np.int32(3))
    in_numpy.steps(program, vector, first, step, lambda each: each.episodes > 0)

    outputs = network.outputs(tf.constant(vector), network.features(tf.constant(vector), shown))
    expected = network.q_values(outputs).numpy()
    assert len(given) == 3
    for acted in given:
        np.testing.assert_allclose(acted.values, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(acted.actions, expected.argmax(axis=1))


@pytest.mark.parametrize("learned", [{}, A3C], ids=["values", "a policy"])
def test_an_evaluation_is_the_one_that_tensorflow_plays(
    coordinator, monkeypatch: pytest.MonkeyPatch, learned: dict[str, Any]
) -> None:
    calls: list[bytes] = []
    real = in_numpy.steps
    monkeypatch.setattr(in_numpy, "steps", lambda *given: (calls.append(given[0]), real(*given))[1])
    found = []
    for backend in ("auto", "tensorflow"):
        config = Config.from_values(
            {"hidden_sizes": (16,), "num_envs_per_worker": 4, "acting_backend": backend, "seed": 5}
            | learned
        )
        _, closures = make_closures(config, num_ps=3, num_workers=2)
        given = np.int64(1), np.zeros(0, np.float32)
        _, returns, error = coordinator.schedule(closures.evaluate(20, freeze=True), given).fetch()
        assert not error
        found.append((returns, len(calls)))
    (one, by_numpy), (other, of_both) = found
    np.testing.assert_array_equal(one, other)
    assert len(set(one)) > 3
    assert by_numpy == of_both > 0
