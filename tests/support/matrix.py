"""Every way to put an experiment together of one choice for each of five questions."""

import itertools
from collections.abc import Iterator

from ps_dqn import config as configuration
from ps_dqn.config.precision import PRECISIONS
from ps_dqn.config.run import ROUNDS

_CHOICES = {field.name: field.metadata["choices"] for field in configuration.fields()}
_CHANGES = "--local_updates=16"
_KEPT = ("--min_replay_size=200", "--replay_capacity=4000")
# Flags by choice, by question.
AXES: dict[str, dict[str, tuple[str, ...]]] = {
    "algorithm": {
        name: (f"--preset={name}",)
        for name in (
            *("dqn", "double_dqn", "rainbow", "hl_gauss", "qr_dqn", "iqn", "munchausen_iqn"),
            *("r2d2", "pqn", "a3c"),
        )
    },
    "topology": {
        "local": ("--topology=local", "--num_workers=2"),
        "apex": ("--topology=apex", "--num_learners=1", "--num_actors=1"),
        "seed": ("--topology=seed", "--num_learners=2", "--num_actors=2"),
    },
    "aggregation": {
        "gorila": ("--preset=gorila", "--aggregation=async"),
        "async": ("--aggregation=async", _CHANGES),
        **{name: (f"--aggregation={name}", _CHANGES) for name in ROUNDS},
        "trimmed_mean": ("--aggregation=trimmed_mean", "--trim_fraction=0.34", _CHANGES),
        "all_reduce": ("--strategy=all_reduce", "--local_updates=1"),
    },
    "precision": {
        **{name: (f"--precision={name}",) for name in PRECISIONS},
        "int8": ("--acting_precision=int8",),
    },
    "replay": {
        name: (f"--replay={name}", *(_KEPT if name != "rollout" else ()))
        for name in _CHOICES["replay"]
    },
}
# What goes with nothing of the second, whatever else is chosen.
REFUSED: dict[str, set[str]] = {
    "apex": {
        *("hl_gauss", "rainbow", "qr_dqn", "iqn", "munchausen_iqn", "r2d2", "a3c"),
        *(*ROUNDS, "all_reduce"),
        *("uniform", "recent", "rollout"),
    },
    "seed": {"a3c", "rollout"},
    "int8": {"apex", "rainbow"},
    "a3c": {"uniform", "prioritized", "recent"},
    "rollout": {*AXES["algorithm"]} - {"pqn", "a3c"},
    "recent": {"gorila", "all_reduce"},
}
Mix = tuple[str, ...]  # a choice for each question
# An algorithm of images, which takes long: in few mixes. Its preset has no average.
OF_IMAGES = {"btr": ("--preset=btr", "--network_width=0.125", "--average_decay=0.99")}
MIXES_OF_IMAGES: tuple[Mix, ...] = (("btr", "seed", "async", "bfloat16", "uniform"),)


def pairs(mix: Mix) -> Iterator[tuple[str, str]]:
    """All pairs of choices in it."""
    return itertools.combinations(mix, 2)


def refused(mix: Mix) -> list[tuple[str, str]]:
    """The pairs in it that do not go together."""
    return [
        (one, other)
        for one, other in pairs(mix)
        if other in REFUSED.get(one, ()) or one in REFUSED.get(other, ())
    ]


def mixes() -> Iterator[Mix]:
    """All of them."""
    return itertools.product(*AXES.values())


def num_workers(mix: Mix) -> int:
    """Of what a mix is tried with: nothing can be trimmed off two pushes."""
    return 3 if "trimmed_mean" in mix else 2


def flags(mix: Mix) -> list[str]:
    """What a command is told for it."""
    asked, count = zip(AXES.values(), mix, strict=True), num_workers(mix)
    words = [flag for of, choice in asked for flag in (of | OF_IMAGES)[choice]]
    counts = {f"--num_{who}=2": f"--num_{who}={count}" for who in ("workers", "learners", "actors")}
    return [counts.get(each, each) for each in words]


def covering() -> list[Mix]:
    """Few mixes in which each pair is that goes together in any, greedily."""
    left = {mix: set(pairs(mix)) for mix in mixes() if not refused(mix)}
    missing = set().union(*left.values())
    chosen = []
    while missing:
        best = max(left, key=lambda mix: len(left[mix] & missing))
        chosen.append(best)
        missing -= left.pop(best)
    return chosen


def nearly() -> list[Mix]:
    """For each pair that does not go together, a mix in which little else is refused."""
    found: dict[tuple[str, str], Mix] = {}
    for mix in sorted(mixes(), key=lambda mix: len(refused(mix))):
        for pair in refused(mix):
            found.setdefault(pair, mix)
    return list(found.values())
