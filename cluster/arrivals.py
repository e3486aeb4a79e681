"""Says to people which tasks have come."""

from collections.abc import Sequence

from ps_dqn.cluster.spec import JOBS, ClusterSpec, Task


def tasks_there(spec: ClusterSpec, new: Sequence[Task], there: int, of: int) -> str:
    """A line for people: which tasks have come, and how many are there.

    Args:
        spec: of the cluster.
        new: those that people have not heard of, one at least.
        there: tasks that are there, these among them.
        of: tasks that are waited for, these among them.
    """
    of_all = f"{there} of {of} tasks"
    if len(new) == 1 and new[0].job == "worker":
        return f"{new[0]} of {len(spec.workers)} is up ({of_all})"
    if len(new) == 1:
        return f"{new[0]} is up ({of_all})"
    names = [str(task) for task in new] if len(new) <= 4 else _in_rows(new)
    if len(names) > 6:
        return f"{len(new)} more tasks are up ({of_all})"
    *first, last = names
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"{listed} are up ({of_all})"


def _in_rows(tasks: Sequence[Task]) -> list[str]:
    """The names of tasks, in one those of a job whose numbers follow each other."""
    rows: list[list[Task]] = []
    for task in sorted(tasks, key=lambda each: (JOBS.index(each.job), each.index)):
        if rows and rows[-1][-1] == Task(task.job, task.index - 1):
            rows[-1].append(task)
        else:
            rows.append([task])
    return [
        f"{first.role}s {first.index} to {more[-1].index}" if more else str(first)
        for first, *more in rows
    ]
