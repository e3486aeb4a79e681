"""When a run connects anew, and when it gives up."""

import sys
import types
from collections.abc import Callable

import pytest

from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.coordinator import reconnect
from ps_dqn.coordinator.supervision.task_failures import TaskFailures
from ps_dqn.errors import ClusterLostError
from ps_dqn.telemetry.figures import TaskFailure

LOST = ClusterLostError("lost a task")
SPEC = ClusterSpec("c:1", ("p:1", "p:2"), ("w:1",))


class Story:
    """A run whose attempts make some steps each and are then lost; the last ends well."""

    def __init__(
        self, steps: list[int], kind: str = "remote", received: int = 0, reports: bool = True
    ):
        self._reports = reports
        self._steps, self.said, self.heard = iter(steps), [], []
        self.tried: list[tuple[object, bool]] = []
        self._saved = 0
        signals = types.SimpleNamespace(received=received, on_stop=self.heard.append)
        self.context = types.SimpleNamespace(
            cluster=None,
            placement=types.SimpleNamespace(kind=kind, spec=SPEC),
            is_remote=kind == "remote",
            checkpoints=types.SimpleNamespace(newest=lambda: checkpoint(self._saved)),
            vitals=types.SimpleNamespace(env_steps=0),
            history=types.SimpleNamespace(began_at=0, failures=TaskFailures()),
            snapshots=types.SimpleNamespace(newest=None),
            watchdog=types.SimpleNamespace(replaced=0),
            signals=signals,
            say=self.said.append,
        )

    def attempt(self, context: object, resumed: object, reconnecting: bool) -> int:
        self.tried.append((resumed, reconnecting))
        steps = next(self._steps, None)
        if steps is None:
            return 0
        self.context.history.began_at = self._saved
        self._saved += steps
        if self._reports:
            self.context.vitals.env_steps = self._saved
        raise LOST


def checkpoint(env_steps: int) -> types.SimpleNamespace:
    counters = types.SimpleNamespace(env_steps=env_steps)
    return types.SimpleNamespace(state=types.SimpleNamespace(counters=counters))


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Story]:
    def make(*steps: int, **more) -> Story:
        story = Story(list(steps), **more)
        monkeypatch.setattr(reconnect.run, "train", story.attempt)
        monkeypatch.setattr(reconnect.remote, "silent", lambda spec, tasks: [tasks[1]])
        return story

    return make


def test_it_goes_on_from_the_newest_checkpoint_as_often_as_it_gets_further(tell):
    story = tell(10, 20, 30, 40)
    assert reconnect.train(story.context, None) == 0
    resumed = [each and each.state.counters.env_steps for each, _ in story.tried]
    assert resumed == [None, 10, 30, 60, 100]
    assert [reconnecting for _, reconnecting in story.tried] == [False, True, True, True, True]
    assert story.said == ["parameter server 1 is lost; connecting anew"] * 4
    # Between attempts a signal has nothing to stop, and ends the process.
    assert story.heard == [None] * 4
    # The server that did not answer has not worked since.
    assert story.context.history.failures.rows() == [TaskFailure("parameter server 1", "lost", 1)]


def test_what_was_pushed_counts_though_no_closure_has_ended(tell):
    story = tell(5, 5, 5, 5, 5, reports=False)
    assert reconnect.train(story.context, None) == 0
    with pytest.raises(ClusterLostError):
        reconnect.train(tell(5, 0, 0, 5, reports=False).context, None)


def test_it_gives_up_where_nothing_comes_of_it(tell):
    story = tell(10, 0, 0, 5, 0, 0, 0, 99)
    with pytest.raises(ClusterLostError):
        reconnect.train(story.context, None)
    assert len(story.tried) == 7


def test_tasks_of_ours_may_die_in_as_many_attempts_as_they_are_started_again(tell):
    # Of several workers that are killed while this process connects, each may be another one.
    story = tell(10, 0, 0, 0, 0, kind="local")
    started = (f"worker {i} was killed; started again (1 of 5)" for i in range(5))
    story.context.cluster = types.SimpleNamespace(
        epitaphs=lambda: "worker 1 was killed",
        ended=lambda job: [],
        check=lambda job: [next(started)] if job == "worker" else [],
    )
    assert reconnect.train(story.context, None) == 0
    assert len(story.tried) == 6
    assert len(story.said) == 5


def test_a_task_that_is_taken_for_the_one_before_it_is_started_again(tell, monkeypatch):
    # What TensorFlow says where a worker was started again while this process connected.
    text = (
        "RecvTensor expects a different device incarnation: 1006 vs. 1477. Your worker job "
        '("/job:worker/replica:0/task:2") was probably restarted. Check your worker job.'
    )
    cause = ClusterLostError(text[:100])
    cause.__cause__ = RuntimeError(text)
    monkeypatch.setattr(sys.modules[__name__], "LOST", cause)
    monkeypatch.setattr(reconnect, "DEATH_SECONDS", 0.0)
    story = tell(10, kind="local")
    killed: list[Task] = []
    story.context.cluster = types.SimpleNamespace(
        epitaphs=lambda: "",
        ended=lambda job: [],
        kill=killed.append,
        check=lambda job: [f"{task} was killed" for task in killed if task.job == job],
    )
    assert reconnect.train(story.context, None) == 0
    assert killed == [Task("worker", 2)]
    assert story.said == ["worker 2 was killed; connecting anew"]


@pytest.mark.parametrize(
    "where", [{"kind": "local"}, {"kind": "in_process"}, {"received": 15}], ids=str
)
def test_nobody_waits_for_what_does_not_come_back(tell, where):
    story = tell(10, **where)
    with pytest.raises(ClusterLostError):
        reconnect.train(story.context, None)
    assert (len(story.tried), story.said) == (1, [])
