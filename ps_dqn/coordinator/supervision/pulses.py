"""What tasks say that they are at, between their reports: for people to see, and for nothing else.

Reports come once for each closure, which may take minutes; `cluster.pulse` asks each second.
"""

import collections
import math
import time
from collections.abc import Callable, Collection, Sequence

from ps_dqn.cluster.pulse import Listener
from ps_dqn.cluster.spec import Task
from ps_dqn.state import Counters
from ps_dqn.telemetry import pulse
from ps_dqn.telemetry.figures import TaskFigures
from ps_dqn.telemetry.pulse import Pulse

# What was said so long ago is not what is, and rates are of so long (seconds).
FRESH_SECONDS, RATE_SECONDS = 5.0, 10.0


class Pulses:
    """The newest pulses of the tasks of a run, and how quickly their numbers grow."""

    def __init__(self, listener: Listener, tasks: Sequence[Task], role: Callable[[int], str]):
        """Has heard of none.

        Args:
            listener: hears them.
            tasks: of the run.
            role: what a worker is for, by its index; nothing where all are alike.
        """
        self._listener, self._tasks, self._role = listener, tasks, role
        self._said: dict[Task, collections.deque[tuple[float, Pulse]]] = {
            task: collections.deque() for task in tasks
        }

    def look(self, session: int) -> bool:
        """Takes what is new; whether a worker of this session was heard of just now."""
        now, is_news = time.monotonic(), False
        for task, heard in self._listener.newest().items():
            said = self._said[task]
            if now - heard.at > FRESH_SECONDS:
                said.clear()
                continue
            found = pulse.decode(heard.content)
            is_known = bool(said) and said[-1][0] == heard.at
            if not is_known:
                if said and found.session != said[-1][1].session:
                    said.clear()
                said.append((heard.at, found))
            while len(said) > 2 and now - said[0][0] > RATE_SECONDS:
                said.popleft()
            is_news |= found.session == session and task.job == "worker"
        return is_news

    def counters(self, session: int, known: Counters, since: float) -> tuple[float, float]:
        """Environment steps and updates of the run by now.

        Args:
            session: of the run.
            known: what its reports say.
            since: when the last of them was heard (`time.monotonic()`); what was said before it is
                in it already, or will be.
        """
        newest = [each[-1] for each in self._said.values() if each]
        ours = [each for at, each in newest if at > since and each.session == session]
        env_steps = max([known.env_steps, *(each.run_env_steps for each in ours)])
        updates = max([known.updates, *(each.run_updates for each in ours)])
        return env_steps + sum(each.pending for each in ours), updates

    def rows(self, lost: Collection[int]) -> list[TaskFigures]:
        """What each task is at.

        Args:
            lost: workers that are gone.
        """
        return [self._row(task, lost) for task in self._tasks]

    def memory(self, job: str) -> list[float]:
        """What each task of a job took when it was last heard (bytes); NaN where it never was."""
        heard = self._listener.newest()
        return [
            pulse.decode(heard[task].content if task in heard else None).memory
            for task in self._tasks
            if task.job == job
        ]

    def _row(self, task: Task, lost: Collection[int]) -> TaskFigures:
        is_worker = task.job == "worker"
        said, name = self._said[task], str(task)
        if is_worker and (role := self._role(task.index)):
            name = f"{name} ({role})"
        if is_worker and task.index in lost:
            return TaskFigures(name, is_worker, "lost")
        if not said:
            heard = self._listener.newest().get(task)
            seconds = time.monotonic() - heard.at if heard else math.nan
            doing = "silent" if heard else "not heard of"
            return TaskFigures(name, is_worker, doing, seconds, is_heard=False)
        newest = said[-1][1]
        return TaskFigures(
            name,
            is_worker,
            newest.phase or ("serving" if newest.session else "starting"),
            newest.phase_seconds if is_worker and newest.session else math.nan,
            env_steps_per_second=_rate(said, "env_steps"),
            updates_per_second=_rate(said, "updates"),
            pushes_per_second=_rate(said, "pushes"),
            adds_per_second=_rate(said, "adds"),
            samples_per_second=_rate(said, "samples"),
            staleness=newest.staleness,
            replay_rows=newest.replay_rows,
            replay_goal=newest.replay_goal,
            version=newest.version,
            memory=newest.memory,
        )


def _rate(said: Sequence[tuple[float, Pulse]], name: str) -> float:
    """How quickly a number has grown (1/s); NaN where that is not known."""
    (began, first), (now, last) = said[0], said[-1]
    grown = getattr(last, name) - getattr(first, name)
    return grown / (now - began) if now > began and grown >= 0 else math.nan
