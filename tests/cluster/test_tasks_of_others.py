"""Whoever answers is there; who has answered and is gone again is not."""

import pytest

from ps_dqn.cluster import health, ports, remote
from ps_dqn.cluster.spec import ClusterSpec, Task


class Answers:
    """Tasks that answer at some looks: of each, at which of them, counted from 0."""

    def __init__(self, spec: ClusterSpec, looks: dict[Task, set[int]]):
        self._looks = {spec.addresses(task.job)[task.index]: at for task, at in looks.items()}
        self._looked = dict.fromkeys(self._looks, 0)

    def __call__(self, address: str, timeout: float) -> bool:
        self._looked[address] += 1
        return self._looked[address] - 1 in self._looks[address]


ALWAYS = set(range(1000))


@pytest.mark.parametrize(
    ("worker", "least", "there"),
    [
        (ALWAYS, 2, (0, 1)),
        ({0}, 1, (0,)),  # it was preempted while the server was awaited
        ({0, *range(2, 1000)}, 2, (0, 1)),  # and waited for, where it is needed
    ],
    ids=["stays", "is gone", "is back"],
)
def test_who_was_there_and_is_gone_does_not_count(
    monkeypatch: pytest.MonkeyPatch, worker: set[int], least: int, there: tuple[int, ...]
) -> None:
    spec = ports.on_this_machine(1, 2)
    late = set(range(3, 1000))
    looks = {Task("ps", 0): late, Task("worker", 0): ALWAYS, Task("worker", 1): worker}
    monkeypatch.setattr(health, "answers", Answers(spec, looks))
    monkeypatch.setattr(remote, "PERIOD", 0.0)
    assert remote.wait_until_serving(spec, lambda line: None, least) == there
