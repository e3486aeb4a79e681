"""What an actor task does: it steps environments as the learner says that came last.

It has no network, no parameters and no TensorFlow. A learner that is started again connects anew,
and its environments begin anew; the connection before is closed, whatever it was at.
"""

import contextlib
import dataclasses
import socket
import sys
import threading
import time
import traceback

import numpy as np

from ps_dqn.actor import messages
from ps_dqn.actor.channel import Channel
from ps_dqn.actor.messages import Hello, Stepped, Welcome
from ps_dqn.config import Config
from ps_dqn.config.faults import ENV_FAILURES
from ps_dqn.environments import Environments, Step
from ps_dqn.errors import UsageError
from ps_dqn.profiling import timeline
from ps_dqn.telemetry.figures import ActorFigures

# Who connects has this long to say hello (seconds).
HELLO_SECONDS = 10.0
# Where connections cannot be taken, from one try to the next (seconds).
RETRY_SECONDS = 1.0


class ActorHost:
    """Serves one learner at a time, on threads of its own."""

    def __init__(self, port: int, failures: str = ""):
        """Listens.

        Args:
            port: where; 0: any that is free.
            failures: folder where failures of environments are written down; none if empty.

        Raises:
            OSError: the port cannot be used.
        """
        self._failures = failures
        self._listener = _listen(port)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()  # of who is served
        self._served: Channel | None = None
        self._has_environments = threading.Lock()
        self._refused = ""  # why none could be made, when a learner came last
        self.figures = ActorFigures()
        self._closed = threading.Event()
        self._wrong = ""  # why no connection can be taken now
        self._accepting = threading.Thread(target=self._accept, name="actor", daemon=True)
        self._accepting.start()

    def is_alive(self) -> str:
        """Empty, or why no learner can reach it; on any thread."""
        return self._wrong if self._accepting.is_alive() else "connections are taken no more"

    def close(self) -> None:
        """Ends it, its environments too."""
        self._closed.set()
        # Who waits in `accept` does not hear of a mere `close`.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._take_over(None)
        with self._has_environments:
            pass  # whoever had them has ended them

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                self._take_one()
            except (OSError, RuntimeError) as error:  # of sockets and of threads
                if not self._closed.is_set():
                    self._note(f"no connection can be taken: {error}")
                self._closed.wait(RETRY_SECONDS)
            else:
                self._note("")

    def _take_one(self) -> None:
        """Waits for a connection, which gets a thread of its own.

        Raises:
            OSError: there is none; often for want of descriptors, which others may give back.
            RuntimeError: no thread can be started.
        """
        connection, _ = self._listener.accept()
        try:
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()
        except RuntimeError:
            connection.close()
            raise

    def _note(self, wrong: str) -> None:
        """What keeps it from taking connections, if anything does; the log has each change."""
        if wrong != self._wrong:
            print(wrong or "connections are taken again", file=sys.stderr, flush=True)
        self._wrong = wrong

    def _talk(self, connection: socket.socket) -> None:
        """Serves whoever says hello; others only look whether anybody is here."""
        connection.settimeout(HELLO_SECONDS)
        try:
            channel = Channel(connection)
            said = channel.receive()
            try:
                hello: Hello = messages.decode(Hello, said)
            except ValueError as error:
                channel.send(messages.refusal(f"it cannot read what it is told: {error}"))
                raise
        except (OSError, ValueError):
            connection.close()
            return
        channel.wait_at_most(None)
        self._take_over(channel)
        try:
            with self._has_environments, timeline.hosted(self):
                self._serve(channel, hello)
        except OSError:
            pass  # the learner is gone, or has connected anew
        except Exception:
            traceback.print_exc()  # into the log
            sys.stderr.flush()
        finally:
            channel.close()
            with self._lock:
                if self._served is channel:
                    self._served = None
                    self._count(0)

    def _take_over(self, channel: Channel | None) -> None:
        """From now on this one is served alone."""
        with self._lock:
            before, self._served = self._served, channel
            self._count(0)  # who comes has no environments yet
        if before is not None:
            before.close()

    def _count(self, connected: int) -> None:
        """Learners that are served; who calls has the lock."""
        self.figures = dataclasses.replace(self.figures, connected=connected)

    def _serve(self, channel: Channel, hello: Hello) -> None:
        try:
            environments = self._make(hello)
        except BaseException as error:  # simulators do as they like, and some end the thread
            channel.send(messages.refusal(self._refusal(error)))
            return
        self._refused = ""
        with contextlib.closing(environments):
            spec = environments.spec
            shape, dtype = list(spec.observation_shape), np.dtype(spec.observation_dtype).name
            welcome = Welcome("", shape, dtype, spec.num_actions, spec.mask_size)
            channel.send(messages.encode(welcome))
            with self._lock:
                self._count(int(self._served is channel))
            self._play(channel, environments)

    def _make(self, hello: Hello) -> Environments:
        """The environments that a learner wants, which have begun."""
        config = Config.from_json(hello.config)
        timeline.settle(config.profiling.timeline)
        with timeline.span("building environments"):
            environments = Environments(config.environment, hello.num_envs, self._failures)
        try:
            environments.reset(hello.seed)
        except BaseException:
            with contextlib.suppress(Exception):  # the learner hears of what came first
                environments.close()
            raise
        return environments

    def _refusal(self, error: BaseException) -> str:
        """Why environments do not begin, in one line; the log has more, once for each reason."""
        if isinstance(error, UsageError):
            return str(error)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        if reason != self._refused:
            traceback.print_exception(error)
            sys.stderr.flush()
        self._refused = reason
        return f"its environments do not begin: {reason}; its log says where"

    def _play(self, channel: Channel, environments: Environments) -> None:
        told = dict(environments.failures)
        channel.send(messages.pack(_first(environments)))
        while True:
            began = time.perf_counter()
            actions = channel.receive().view(np.int32)
            got = time.perf_counter()
            step = environments.step(actions)
            ended = time.perf_counter()
            timeline.add("waiting for actions", began, got)
            timeline.add("stepping environments", got, ended)
            now = dict(environments.failures)
            failures = [now[kind] - told[kind] for kind in ENV_FAILURES]
            told = now
            with self._lock:
                before = self.figures
                self.figures = ActorFigures(
                    before.connected,
                    before.steps + 1,
                    before.env_steps + int(step.is_transition.sum()),
                    before.waited_seconds + got - began,
                    before.env_seconds + ended - got,
                )
            channel.send(messages.pack(_stepped(step, got - began, failures)))


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # of a kernel without IPv6
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _first(environments: Environments) -> Stepped:
    """What environments show that have just begun."""
    nothing = np.zeros(environments.num_envs, np.bool_)
    shown = environments.observations
    return Stepped(
        0.0,
        np.zeros(len(ENV_FAILURES), np.int64),
        shown,
        environments.masks,
        np.zeros(environments.num_envs),
        nothing,
        nothing,
        nothing,
        nothing,
        np.zeros(0, np.int64),
        shown[:0],
        environments.masks[:0],
    )


def _stepped(step: Step, waited: float, failures: list[int]) -> Stepped:
    failed = np.zeros(len(step.rewards), np.bool_)
    failed[step.failed_envs] = True
    assert step.next_masks is not None
    assert step.final_masks is not None  # of vectors' own steps they are there
    return Stepped(
        waited,
        np.array(failures, np.int64),
        step.next_observations,
        step.next_masks,
        np.asarray(step.rewards, np.float64),
        step.terminated,
        step.truncated,
        step.is_transition,
        failed,
        np.asarray(step.final_envs, np.int64),
        np.asarray(step.final_observations, step.next_observations.dtype),
        step.final_masks,
    )
