"""What an actor and its learner say, there and back."""

import numpy as np
import pytest

from ps_dqn.actor import messages
from ps_dqn.actor.messages import Hello, Layout, Stepped
from ps_dqn.config.faults import ENV_FAILURES

SHAPE, ENVS, MASKS = (2, 3), 3, 5


def stepped(finals: int, dtype: str) -> Stepped:
    rng = np.random.default_rng(finals)

    def some(*shape: int) -> np.ndarray:
        return rng.integers(0, 200, shape).astype(dtype)

    def truths(*shape: int) -> np.ndarray:
        return rng.random(shape) < 0.5

    return Stepped(
        0.125,
        np.arange(len(ENV_FAILURES)),
        some(ENVS, *SHAPE),
        truths(ENVS, MASKS),
        rng.normal(size=ENVS),
        *(truths(ENVS) for _ in range(4)),
        np.arange(finals),
        some(finals, *SHAPE),
        truths(finals, MASKS),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("finals", [0, 1, 3])
def test_a_step_is_read_as_it_was_written(finals: int, dtype: str) -> None:
    wanted, layout = stepped(finals, dtype), Layout(ENVS, SHAPE, np.dtype(dtype), MASKS)
    message = np.frombuffer(messages.pack(wanted), np.uint8)
    found = messages.unpack(message, layout)
    for name, there, here in zip(Stepped._fields, found, wanted, strict=True):
        np.testing.assert_array_equal(there, here, err_msg=name)
        assert np.asarray(there).dtype == np.asarray(here).dtype, name
    # Each observation crosses once: nothing but numbers comes with it.
    shown = wanted.observations.nbytes + wanted.final_observations.nbytes
    assert len(message) - shown < 200


@pytest.mark.parametrize("cut", [-1, 1])
def test_a_message_of_another_length_is_refused(cut: int) -> None:
    layout = Layout(ENVS, SHAPE, np.dtype(np.uint8), MASKS)
    whole = messages.pack(stepped(1, "uint8"))
    message = np.frombuffer(whole[:cut] if cut < 0 else whole + b"\0", np.uint8)
    with pytest.raises(ValueError, match=r"size|shape|expected"):
        messages.unpack(message, layout)


def test_hellos_of_others_are_refused() -> None:
    hello = Hello("{}", 3, 7)
    known = np.frombuffer(messages.encode(hello), np.uint8)
    assert messages.decode(Hello, known) == hello
    for text in (b'{"version": 0}', b"[]", b'{"version": 1, "config": "{}"}', b"GET / HTTP/1.1"):
        with pytest.raises(ValueError, match=r"version|Expecting"):
            messages.decode(Hello, np.frombuffer(text, np.uint8))
