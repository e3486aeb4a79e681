"""The learning curve of a run as a picture."""

import math
import pathlib
import threading

from ps_dqn import pictures
from ps_dqn.run import directory, disk
from ps_dqn.telemetry import measured


def prepare() -> None:
    """Imports in the background what `draw` needs, so that nobody waits for it at a run's end."""
    threading.Thread(target=pictures.load, name="learning curve", daemon=True).start()


def draw(path: pathlib.Path, title: str, target_return: float) -> pathlib.Path | None:
    """Draws returns over environment steps from a run's metrics.

    Args:
        path: the run directory.
        title: above the picture.
        target_return: drawn as a line where it is finite.

    Returns:
        Where the picture is, or None where there is nothing to draw yet.
    """
    run = measured.read(path)
    train = run.points("env_steps", "train/episode_return")
    evaluation = run.points("env_steps", "eval/episode_return")
    if not train and not evaluation:
        return None
    target = path / directory.CURVE
    with pictures.figure(8, 4.5) as figure:
        axes = figure.subplots()
        if train:
            axes.plot(*zip(*train, strict=True), color="tab:gray", label="training, exploring")
        if evaluation:
            axes.plot(*zip(*evaluation, strict=True), color="tab:blue", marker="o", markersize=3,
                      label="evaluation, greedy")  # fmt: skip
            low = [y for _, y in run.points("env_steps", "eval/episode_return_min")]
            high = [y for _, y in run.points("env_steps", "eval/episode_return_max")]
            axes.fill_between([x for x, _ in evaluation], low, high, color="tab:blue", alpha=0.15,
                              label="evaluation, worst to best episode")  # fmt: skip
        if math.isfinite(target_return):
            axes.axhline(target_return, color="tab:green", linestyle="--", label="target")
        axes.set_xlabel("environment steps, all workers")
        axes.set_ylabel("episode return")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.set_title(title)
        axes.grid(alpha=0.3)
        axes.legend(loc="best")
        with disk.beside(target) as temporary:
            figure.savefig(temporary, dpi=120)
    return target
