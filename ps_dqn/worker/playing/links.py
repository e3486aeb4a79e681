"""A learner's connections to its actors: a thread each, which say what they hear to an inbox.

A connection that is lost is made again, for as long as it takes; the actor's environments have then
begun anew, whoever of the two was started again. The log has each change, once.
"""

import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ps_dqn.actor import channel, messages
from ps_dqn.actor.channel import Channel
from ps_dqn.actor.messages import Hello, Layout, Stepped, Welcome

# From a failure to the next try: after the first one, and at most (seconds).
LEAST_PAUSE, MOST_PAUSE = 0.2, 5.0
# An actor that was there for so long did not fail: the next failure is a first one (seconds).
LASTING_SECONDS = 5.0
# Ways to fail, for people.
UNREACHED = "cannot be reached"
REFUSES = "cannot do what it is for"
GONE = "is not connected any more"


class Joined(NamedTuple):
    """An actor has made its environments."""

    actor: int
    channel: Channel
    shown: Stepped


class Moved(NamedTuple):
    """An actor has acted."""

    actor: int
    stepped: Stepped


class Lost(NamedTuple):
    """An actor that had joined is gone, until it joins again."""

    actor: int


class Refused(NamedTuple):
    """An actor cannot do what it is for; for people."""

    actor: int
    text: str


Heard = Joined | Moved | Lost | Refused


class Link:
    """One actor, connected whenever it is there."""

    def __init__(
        self,
        actor: int,
        address: str,
        layout: Layout,
        num_actions: int,
        hello: Callable[[int], Hello],
        inbox: "queue.SimpleQueue[Heard]",
    ):
        """Connects, on a thread of its own, until `close`.

        Args:
            actor: its number in what is put into the inbox.
            address: host:port.
            layout: of its environments, which it must show.
            num_actions: that each of its environments must have.
            hello: says what it is for when it is connected for the i-th time.
            inbox: takes what is heard of it, in order.
        """
        self._actor, self._address, self._layout = actor, address, layout
        self._num_actions, self._hello, self._inbox = num_actions, hello, inbox
        self._closed = threading.Event()
        self._channel: Channel | None = None
        self._log = _Log(f"the actor at {address}")
        name = f"actor {actor}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Lets go of the actor."""
        self._closed.set()
        self._log.close()
        if (open_one := self._channel) is not None:
            open_one.close()

    def _run(self) -> None:
        times, pauses = 0, _pauses()
        while not self._closed.is_set():
            if (made := self._connected()) is not None:
                lasted = self._talk(made, times)
                times += 1
                if lasted >= LASTING_SECONDS:
                    pauses = _pauses()
            self._closed.wait(next(pauses))

    def _connected(self) -> Channel | None:
        """A connection to the actor; None where nobody is there."""
        try:
            made = channel.connect(self._address)
        except (OSError, ValueError) as error:  # a name may be none
            self._log.fails(UNREACHED, str(error))
            return None
        self._log.is_reached()
        return made

    def _talk(self, made: Channel, times: int) -> float:
        """Hears the actor until it is gone; for how long it was there (seconds)."""
        self._channel, joined = made, math.inf
        try:
            if self._closed.is_set():
                return 0.0  # it was closed before it had a channel
            made.wait_at_most(None)  # environments take their time to be made
            made.send(messages.encode(self._hello(times)))
            if text := self._unlike(made.receive()):
                self._log.fails(REFUSES, text)
                self._inbox.put(Refused(self._actor, f"actor at {self._address}: {text}"))
                return 0.0
            shown = self._hear(made)
            self._log.is_there()
            joined = time.monotonic()
            self._inbox.put(Joined(self._actor, made, shown))
            try:
                while True:
                    self._inbox.put(Moved(self._actor, self._hear(made)))
            finally:
                self._inbox.put(Lost(self._actor))
        except (OSError, ValueError) as error:  # or it shows what is none of its environments
            self._log.fails(GONE, str(error))
        finally:
            self._channel = None
            made.close()
        return max(time.monotonic() - joined, 0.0)

    def _hear(self, made: Channel) -> Stepped:
        return messages.unpack(made.receive(), self._layout)

    def _unlike(self, answer: np.ndarray) -> str:
        """What is wrong with an actor, by its answer; no text where nothing is."""
        try:
            welcome: Welcome = messages.decode(Welcome, answer)
        except ValueError as error:
            return str(error)
        if welcome.error:
            return welcome.error
        layout = self._layout
        shape, dtype = [*layout.observation_shape], layout.observation_dtype.name
        wanted = shape, dtype, self._num_actions, layout.mask_size
        found = tuple(welcome[1:])
        if found == wanted:
            return ""
        return (
            f"its environments have {found} (shape, dtype, actions, masks), and here they have "
            f"{wanted}"
        )


class _Log:
    """What people read of an actor: each way in which it fails, once until it is there again."""

    def __init__(self, whose: str):
        self._whose, self._said, self._is_closed = whose, set[str](), False

    def close(self) -> None:
        """Says nothing of what follows."""
        self._is_closed = True

    def fails(self, how: str, why: str) -> None:
        """It does, in a way that is known by `how`."""
        if how not in self._said:
            self._said.add(how)
            self._say(f"{how}: {why}")

    def is_reached(self) -> None:
        """There is a connection to it."""
        if UNREACHED in self._said:
            self._said.remove(UNREACHED)
            self._say("is reached")

    def is_there(self) -> None:
        """It has made its environments."""
        if self._said:
            self._said.clear()
            self._say("is there again")

    def _say(self, what: str) -> None:
        if not self._is_closed:
            print(f"{self._whose} {what}", file=sys.stderr, flush=True)


def _pauses() -> Iterator[float]:
    """From each failure in a row to the next try (seconds)."""
    pause = LEAST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, MOST_PAUSE)


def rows_of(num_envs: int, num_actors: int) -> list[np.ndarray]:
    """Which of a learner's environments each of its actors has, int."""
    return np.array_split(np.arange(num_envs), num_actors)
