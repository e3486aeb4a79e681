"""The variables of a parameter server and their compiled step, against the same rule in NumPy."""

import numpy as np
import pytest
from support.numpy_vectors import NumpyVectors

from ps_dqn.config import Config
from ps_dqn.parameter_server import vectors as vectors_module
from ps_dqn.parameter_server.aggregation import Combined
from ps_dqn.parameter_server.vectors import CompiledVectors, Vectors
from ps_dqn.state import Counters
from ps_dqn.wire import encoding

SIZE = 1000
COUNTERS = Counters(1, 2, 3, 4, 5)
RULES = {
    "nesterov": {},
    "added": {"outer_optimizer": "sgd"},
    "outer_adam": {"outer_optimizer": "adam"},
    "adam": {"local_updates": 1, "optimizer": "adam"},
    "rmsprop": {"local_updates": 1, "optimizer": "rmsprop"},
    "adagrad": {"local_updates": 1, "optimizer": "adagrad"},
    "sgd": {"local_updates": 1, "optimizer": "sgd"},
    "soft_target": {"tau": 0.01},
}


def make_config(**options) -> Config:
    return Config.from_values({"num_envs_per_worker": 1, "average_decay": 0.9, **options})


def initial(size: int = SIZE) -> np.ndarray:
    return np.linspace(-1, 1, size).astype(np.float32)


def pushes(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(8).normal(size=(count, size)).astype(np.float32)


def combined(push: np.ndarray, rate: float = 0.1, weight: float = 1.0) -> Combined:
    """A push worth a fraction of updates, with a momentum."""
    return Combined(push, weight, 2.5, rate, 0.5, [])


def everything(vectors) -> list[np.ndarray]:
    state = vectors.state(COUNTERS)
    assert state.counters == COUNTERS
    return [state.online, state.target, state.average, *state.slots]


each_kind = pytest.mark.parametrize("kind", [Vectors, CompiledVectors])


@each_kind
@pytest.mark.parametrize("name", RULES)
def test_a_step_is_the_rule_and_what_follows_it(name, kind):
    config = make_config(**RULES[name])
    compiled, reference = (each(config, initial()) for each in (kind, NumpyVectors))
    for step, push in enumerate(pushes(8), start=1):
        made_of = Combined(
            push, 0.5 + 0.1 * step, 0.75 * step, 0.02 / step, (0.5, 0.9, 0.0)[step % 3], []
        )
        copies = step % 3 == 0 and not config.learning.tau
        compiled.step(made_of, step, copies)
        reference.step(made_of, step, copies)
        for found, expected in zip(everything(compiled), everything(reference), strict=True):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    moved = everything(compiled)
    assert all((vector != initial()).mean() > 0.99 for vector in moved)
    assert (moved[0] != moved[1]).any()


@each_kind
@pytest.mark.parametrize("copies", [False, True])
def test_the_target_is_copied_where_it_is_due(copies, kind):
    vectors = kind(make_config(), initial())
    vectors.step(combined(pushes(1)[0]), 1, copies)
    assert (vectors.target() == (vectors.online() if copies else initial())).all()


@each_kind
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("size", [1, 7, 1000, 20_011])
def test_cutting_a_vector_in_two_changes_no_bit(name, size, kind):
    config = make_config(**RULES[name])
    cut = size // 3
    parts = [part for part in (slice(0, cut), slice(cut, size)) if part.stop > part.start]
    whole = kind(config, initial(size))
    cuts = [kind(config, initial(size)[part]) for part in parts]
    for step, push in enumerate(pushes(4, size), start=1):
        whole.step(combined(push, 0.01, 0.7), step, step == 2)
        for vectors, part in zip(cuts, parts, strict=True):
            vectors.step(combined(push[part], 0.01, 0.7), step, step == 2)
    joined = [np.concatenate(each) for each in zip(*map(everything, cuts), strict=True)]
    for found, expected in zip(joined, everything(whole), strict=True):
        assert found.tobytes() == expected.tobytes()


def test_what_was_read_is_not_changed_by_a_later_step():
    # XLA may write a step's result over what it was made of, if nobody else holds that.
    vectors = CompiledVectors(make_config(tau=0.5), initial(100_000))
    kept = [vectors.online(), vectors.target()]
    copies = [each.copy() for each in kept]
    for step, push in enumerate(pushes(3, 100_000), start=1):
        vectors.step(combined(push), step, False)
    for each, copy in zip(kept, copies, strict=True):
        assert each.tobytes() == copy.tobytes()
    assert (vectors.online() != copies[0]).mean() > 0.99


@each_kind
@pytest.mark.parametrize("offset", [0, 1, 4, 16])
@pytest.mark.parametrize("writeable", [True, False])
def test_a_push_may_lie_anywhere_in_memory_and_is_left_alone(offset, writeable, kind):
    room = encoding.aligned(4 * SIZE + 64)
    push = room[offset : offset + 4 * SIZE].view(np.float32)
    push[:] = pushes(1)[0]
    push.flags.writeable = writeable
    vectors = kind(make_config(outer_optimizer="sgd"), initial())
    vectors.step(combined(push, 1.0), 1, False)
    np.testing.assert_allclose(vectors.online(), initial() + pushes(1)[0], rtol=1e-6)
    assert (push == pushes(1)[0]).all()


@each_kind
def test_the_average_is_frozen_until_it_is_frozen_again(kind):
    vectors = kind(make_config(), initial())
    assert (vectors.frozen() == initial()).all()
    vectors.step(combined(pushes(1)[0]), 1, False)
    assert (vectors.frozen() == initial()).all()
    vectors.freeze()
    assert (vectors.frozen() == everything(vectors)[2]).all()


@each_kind
def test_a_state_that_is_put_back_goes_on_to_the_same_bits(kind):
    config = make_config(local_updates=1, optimizer="adam")
    first, second = (kind(config, initial()) for _ in range(2))
    for step, push in enumerate(pushes(3), start=1):
        first.step(combined(push), step, False)
    second.restore(first.state(COUNTERS))
    assert (second.frozen() == everything(first)[2]).all()
    for vectors in (first, second):
        vectors.step(combined(pushes(4)[3]), 4, True)
    for found, expected in zip(everything(second), everything(first), strict=True):
        assert found.tobytes() == expected.tobytes()


@each_kind
def test_what_it_was_given_at_the_start_is_not_changed(kind):
    given = initial()
    vectors = kind(make_config(), given)
    vectors.step(combined(pushes(1)[0]), 1, True)
    assert (given == initial()).all()


@each_kind
def test_a_server_may_hold_nothing(kind):
    vectors = kind(make_config(), initial(0))
    vectors.step(combined(pushes(1, 0)[0]), 1, True)
    vectors.freeze()
    assert [len(each) for each in everything(vectors)] == [0, 0, 0, 0]


def test_the_whole_network_decides_what_is_compiled():
    least, config = vectors_module.SMALLEST_COMPILED, make_config()
    for size in (10, least // 3):  # of a shard
        assert type(vectors_module.make(config, initial(size), least - 1)) is Vectors
        assert type(vectors_module.make(config, initial(size), least)) is CompiledVectors


@each_kind
def test_it_holds_variables(kind):
    vectors = kind(make_config(), initial())
    vectors.step(combined(pushes(1)[0]), 1, False)
    held = vectors._variables
    assert list(held) == ["online", "target", "average", "slot_0"]
    found = {name: variable.numpy() for name, variable in held.items()}
    for name, expected in zip(held, everything(vectors), strict=True):
        assert found[name].tobytes() == expected.tobytes()
