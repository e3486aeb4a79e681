"""The teacher and the student side by side: what they reach, and what they cost."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from ps_dqn.environments.interface import Interface
from ps_dqn.export import agreement
from ps_dqn.export.observations import Met
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy import greedy
from ps_dqn.policy.policy import Policy, Source
from ps_dqn.telemetry import tables
from ps_dqn.telemetry.tables import Column

# Actions of one observation that are timed, in turns of so many with each network.
TURNS, ACTIONS = 10, 50


class Side(NamedTuple):
    """A network that is compared."""

    who: str
    description: str
    network: QNetwork
    parameters: np.ndarray  # float32 [P]
    returns: np.ndarray  # of the episodes that it has played, float64


class Compared(NamedTuple):
    """What is known of it."""

    side: Side
    same_actions: float  # share of held-out observations where it chooses as the teacher does
    microseconds: float  # for the action of one observation


def compare(sides: Sequence[Side], interface: Interface, met: Met) -> list[Compared]:
    """Looks at networks, of which the first is the teacher.

    Args:
        sides: the networks.
        interface: of the environment.
        met: observations that none has learned from.
    """
    answers = [agreement.wanted(each.network, each.parameters, interface, met) for each in sides]
    shares = [agreement.compare(interface, met, answers[0], each) for each in answers]
    times = _microseconds(sides, interface, met)
    return [
        Compared(side, share.same_actions / share.observations, took)
        for side, share, took in zip(sides, shares, times, strict=True)
    ]


def table(rows: Sequence[Compared], width: int) -> Table:
    """For people.

    Args:
        rows: the teacher first.
        width: blanks that there are.
    """
    return tables.make(_COLUMNS, rows, width)


def _microseconds(sides: Sequence[Side], interface: Interface, met: Met) -> list[float]:
    """For the action of one observation, as `load` gives policies.

    The median, in turns, so that what else the machine does now and then does not count.
    """
    inputs = greedy.inputs_of(interface, *(each[:1] for each in met))
    mask = inputs.pop(greedy.MASK, None)
    mask = None if mask is None else mask[0]
    policies = []
    for each in sides:
        each.network.assign(each.parameters)
        model = greedy.greedy_network(each.network, interface)
        policies.append(Policy(model, interface, Source("", 0, 0, 0.0)))
    took: list[list[float]] = [[] for _ in sides]
    for turn in range(TURNS + 1):  # the first one traces, and does not count
        for policy, times in zip(policies, took, strict=True):
            for _ in range(ACTIONS if turn else 1):
                began = time.perf_counter()
                policy.outputs(inputs, mask, is_one=True)
                if turn:
                    times.append(time.perf_counter() - began)
    return [float(np.median(times)) * 1e6 for times in took]


_COLUMNS = (
    Column("", lambda row: row.side.who, left=True),
    Column("network", lambda row: row.side.description, 3, left=True),
    Column("parameters", lambda row: f"{row.side.network.num_parameters:,}", 1),
    Column("bytes", lambda row: f"{row.side.parameters.nbytes:,}", 4),
    Column("return", lambda row: tables.number(float(row.side.returns.mean()))),
    Column("lowest", lambda row: tables.number(float(row.side.returns.min())), 1),
    Column("agrees", lambda row: f"{row.same_actions:.1%}"),
    Column("µs/action", lambda row: f"{row.microseconds:,.0f}", 2),
)
