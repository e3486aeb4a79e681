"""Pushes that can be counted at the end, whoever was killed in between.

What is pushed depends on the ticket alone, so that the parameters at the end say which tickets
were applied, and how often, on each server by itself. There are no environments and nothing is
learned: the shorter the rest, the likelier a kill falls into a push.
"""

import os
import pathlib
import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn.config import Config, Learning, ParameterServer
from ps_dqn.parameter_server.host import ParameterHost
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.wire.messages import Kind, Verdict
from ps_dqn.worker.pushes.parameter_client import ParameterClient, Parameters

PUSHES = 4  # of a closure
# Every server holds as many numbers: see `part_of`.
ATTEMPT_BITS, CLASSES = 16, 1009
PART = ATTEMPT_BITS + CLASSES
INITIAL = 3.0
# The parameters are whole numbers, exact in whatever order they are added up. Their average is
# not, and the target is of one moment: these two show the order.
CONFIG = Config(
    learning=Learning(average_decay=0.99, target_update_period=100),
    parameter_server=ParameterServer(
        local_updates=2,
        update_period=32,
        outer_learning_rate=1.0,
        outer_momentum=0.0,
        pushes_per_closure=PUSHES,
    ),
)
# Half of a slow server's decisions take up to so long.
LATEST_SECONDS = 0.1


def part_of(ticket: int, attempt: int) -> np.ndarray:
    """What is pushed to each server, float32 [PART]: a tally of attempts and one of tickets."""
    part = np.zeros(PART, np.float32)
    part[:ATTEMPT_BITS] = [attempt >> bit & 1 for bit in range(ATTEMPT_BITS)]
    part[ATTEMPT_BITS + ticket % CLASSES] = 1
    return part


def env_steps_of(ticket: int) -> int:
    return 1 + ticket % 5


def episodes_of(ticket: int) -> int:
    return ticket % 3


class Pusher:
    """A worker's host: the real exchange, and a diary that outlives a worker."""

    recording = None

    def __init__(self, worker: int, num_ps: int, diary: pathlib.Path):
        self._worker, self._num_ps = worker, num_ps
        self._diary = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._exchange: ParameterClient | None = None

    @property
    def methods(self) -> dict[str, Callable[..., Sequence[Any]]]:
        return {"begin": self._begin, "pack": self._pack, "pushed": self._pushed}

    def close(self) -> None:
        """Nothing to end."""

    def _begin(self, session: np.ndarray, tickets: np.ndarray) -> list[Any]:
        if self._exchange is None:
            sizes = [PART] * self._num_ps
            self._exchange = ParameterClient(
                CONFIG.parameter_server, int(session), self._worker, sizes
            )
        self._ticket, oldest = map(int, tickets)
        self._attempt = secrets.randbits(ATTEMPT_BITS)
        self._exchange.begin(self._ticket, oldest)
        self._note("begin")
        return [np.int64(os.getpid()), self._exchange.requests()]

    def _pack(self, *replies: np.ndarray) -> list[Any]:
        assert self._exchange is not None
        pulled = self._exchange.pulled(replies)
        assert isinstance(pulled, Parameters), pulled
        ticket = self._ticket
        vector = np.tile(part_of(ticket, self._attempt), self._num_ps)
        header, packed = self._exchange.pack(
            vector, Kind.APPLIED, 2, env_steps_of(ticket), episodes_of(ticket), 0.0
        )
        self._note("pack")
        return [np.int32(1), header, *packed]

    def _pushed(self, verdict: np.ndarray) -> list[Any]:
        assert self._exchange is not None
        self._exchange.pushed(Verdict(*map(int, verdict)))
        self._note("pushed")
        self._ticket += 1
        return [self._exchange.requests()]

    def _note(self, what: str) -> None:
        os.write(self._diary, f"{what} {self._ticket}\n".encode())


class SlowServer(ParameterHost):
    """A parameter server half of whose decisions reach the others late.

    On one machine they arrive so soon that a worker hardly ever dies before.
    """

    @property
    def methods(self) -> dict[str, Callable[..., Sequence[Any]]]:
        methods = super().methods

        def decide(request: np.ndarray) -> Sequence[Any]:
            verdict = methods["decide"](request)
            if random.random() < 0.5:
                time.sleep(random.uniform(0, LATEST_SECONDS))
            return verdict

        return methods | {"decide": decide}


def differences(
    store: ParameterStore, tallies: list[dict[str, int]], tickets: int, num_workers: int
) -> list[str]:
    """What is not as if every ticket had been pushed once."""
    everyone = range(1, tickets + 1)
    expected = {
        "version": tickets,
        "updates": 2 * tickets,
        "env_steps": sum(map(env_steps_of, everyone)),
        "episodes": sum(map(episodes_of, everyone)),
        "entries": tickets,
        "applied": tickets,
        "sum_of_tickets": tickets * (tickets + 1) // 2,
        "staged": 0,
    }
    found = [
        f"server {i}: {name} is {tally[name]}, not {expected[name]}"
        for i, tally in enumerate(tallies)
        for name in expected
        if tally[name] != expected[name]
    ]
    # A push is worth its 2 updates over the workers that push, who die and come back.
    worth = tallies[0]["sequential_updates"]
    if not 2 * tickets // num_workers <= worth <= 2 * tickets:
        found.append(f"{worth} sequential updates of {tickets} pushes")
    state = store.state()
    counts = INITIAL + np.bincount([ticket % CLASSES for ticket in everyone], minlength=CLASSES)
    for i, part in enumerate(state.online.reshape(store.num_ps, PART)):
        wrong = np.flatnonzero(part[ATTEMPT_BITS:] != counts)
        if len(wrong):
            found.append(f"server {i}: tickets that are {wrong} modulo {CLASSES} were miscounted")
    for name in ("online", "target", "average"):
        parts = getattr(state, name).reshape(store.num_ps, PART)
        if not (parts == parts[0]).all():
            found.append(f"servers differ in {name}: another order, or another attempt")
    return found
