"""An actor task's host: one learner at a time, whoever else finds its port."""

import contextlib
import errno
import json
import socket
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support import paying_env, unlicensed_env
from support import processes as real

from ps_dqn.actor import channel, messages
from ps_dqn.actor import host as actor_host
from ps_dqn.actor.channel import Channel
from ps_dqn.actor.host import ActorHost
from ps_dqn.actor.messages import Hello, Layout, Stepped, Welcome
from ps_dqn.config import Config

assert unlicensed_env.LENGTH  # it is registered
LAYOUT = Layout(2, (2,), np.dtype(np.float32), 0)
SECONDS = 60.0


@pytest.fixture
def host() -> Iterator[ActorHost]:
    made = ActorHost(0)
    yield made
    made.close()


Begin = Callable[..., "Learner"]


@pytest.fixture
def begun(host: ActorHost) -> Iterator[Begin]:
    """Makes learners of the host, which are gone after the test."""
    with contextlib.ExitStack() as stack:

        def begin(**values: object) -> Learner:
            made = Learner(host, **values)
            stack.callback(made.channel.close)
            return made

        yield begin


class Learner:
    """Plays with a host."""

    def __init__(self, host: ActorHost, **values: object):
        self.channel: Channel = channel.connect(f"127.0.0.1:{host.port}")
        self.channel.wait_at_most(SECONDS)
        config = Config.from_values(paying_env.SMALL | values)
        self.channel.send(messages.encode(Hello(config.to_json(), 2, 1)))
        self.welcome: Welcome = messages.decode(Welcome, self.channel.receive())

    def hear(self) -> Stepped:
        return messages.unpack(self.channel.receive(), LAYOUT)

    def act(self, *actions: int) -> Stepped:
        self.channel.send(np.array(actions, np.int32).tobytes())
        return self.hear()


def test_it_steps_environments_as_it_is_told(host: ActorHost, begun: Begin) -> None:
    learner = begun()
    assert learner.welcome == Welcome("", [2], "float32", paying_env.ACTIONS, 0)
    assert learner.hear().observations.tolist() == [[0, 0], [0, 0]]

    found = learner.act(1, 2)

    assert found.observations.tolist() == [[0, 1], [0, 1]]
    assert found.rewards.tolist() == [1, 2]
    assert found.waited > 0
    assert found.is_transition.all()
    assert host.figures.connected == 1
    assert host.figures.env_steps == 2
    learner.channel.close()
    real.until(lambda: not host.figures.connected, SECONDS, "the actor to be free")


def test_one_that_is_closed_serves_nobody(host: ActorHost, begun: Begin) -> None:
    begun().hear()
    assert host.figures.connected == 1
    host.close()
    assert host.figures.connected == 0


def test_the_learner_that_comes_last_has_it(begun: Begin) -> None:
    before = paying_env.Paying.closed
    first = begun()
    first.hear()
    first.act(0, 0)

    second = begun()

    assert second.hear().observations.tolist() == [[0, 0], [0, 0]], "they begin anew"
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system calls it
        first.act(0, 0)
    assert second.act(1, 1).observations.tolist() == [[0, 1], [0, 1]]
    assert paying_env.Paying.closed - before >= 2, "those of the first are closed"


@pytest.mark.parametrize(
    "words",
    [b"", b"\x05\0\0\0\0\0\0\0hello", b"\xff" * 64],
    ids=["nothing", "no JSON", "no length"],
)
def test_who_says_no_hello_changes_nothing(host: ActorHost, begun: Begin, words: bytes) -> None:
    learner = begun()
    learner.hear()
    with socket.create_connection(("127.0.0.1", host.port)) as other:
        other.settimeout(SECONDS)
        with contextlib.suppress(OSError):  # it may be closed before that, and with words unread
            other.sendall(words)
            other.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while other.recv(1000):
                pass  # it is told that it is no learner
    assert learner.act(1, 1).rewards.tolist() == [1, 1]


def test_what_a_person_can_mend_is_said_in_one_line(
    begun: Begin, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "--env_id=Nothing-v0" in begun(env_id="Nothing-v0").welcome.error
    error = begun(env_id="tests/Unlicensed-v0").welcome.error
    assert "cannot be made (RuntimeError: no licence for what is made" in error
    logged = capfd.readouterr().err
    assert "Nothing-v0" not in logged
    assert "no licence" not in logged


@pytest.mark.parametrize("error", ["RuntimeError", "OSError", "SystemExit"])
def test_whatever_keeps_environments_from_beginning_is_said(
    begun: Begin, capfd: pytest.CaptureFixture[str], error: str
) -> None:
    kwargs = json.dumps({"when": "begun", "error": error})
    wanted = (
        f"its environments do not begin: {error}: no licence for what is begun; its log says where"
    )
    for _ in range(3):
        learner = begun(env_id="tests/Unlicensed-v0", env_kwargs=kwargs)
        assert learner.welcome == Welcome(wanted, [], "", 0, 0)
        with pytest.raises(ConnectionError):
            learner.hear()
    # Whoever comes again with the same does not fill the log.
    assert capfd.readouterr().err.count("in _serve") == 1

    assert begun().welcome.error == "", "another run may be one that begins here"


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        (b'{"version": 0, "config": "{}"}', "a message of another version of ps-dqn"),
        (b'{"version": 1, "config": "{}"}', "a message of another version of ps-dqn ("),
        (b"GET / HTTP/1.1", "Expecting value"),
    ],
    ids=["another version", "other fields", "another protocol"],
)
def test_who_cannot_be_understood_is_told_so(host: ActorHost, hello: bytes, says: str) -> None:
    other = channel.connect(f"127.0.0.1:{host.port}")
    other.wait_at_most(SECONDS)
    other.send(hello)
    welcome = messages.decode(Welcome, other.receive())
    other.close()
    assert welcome.error.startswith(f"it cannot read what it is told: {says}")


def test_an_experiment_of_another_version_is_answered(host: ActorHost) -> None:
    other = channel.connect(f"127.0.0.1:{host.port}")
    other.wait_at_most(SECONDS)
    other.send(messages.encode(Hello('{"no such option": 1}', 2, 1)))
    assert messages.decode(Welcome, other.receive()).error
    other.close()


class Accepting:
    """A listening socket that has no descriptors for connections until the test says so."""

    def __init__(self, listener: socket.socket):
        self._listener, self.failed, self.mended = listener, 0, threading.Event()

    def accept(self) -> tuple[socket.socket, object]:
        if not self.mended.is_set():
            self.failed += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._listener, name)


def test_it_takes_connections_again_once_it_can(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    listener = Accepting(socket.create_server(("", 0)))
    monkeypatch.setattr(actor_host, "_listen", lambda _: listener)
    monkeypatch.setattr(actor_host, "RETRY_SECONDS", 0.01)
    host = ActorHost(0)
    real.until(lambda: listener.failed > 3, SECONDS, "tries to accept")
    said = "no connection can be taken: [Errno 24] Too many open files"
    assert host.is_alive() == said

    listener.mended.set()

    learner = Learner(host)
    assert learner.welcome.error == ""
    real.until(lambda: not host.is_alive(), SECONDS, "it to be alive")
    logged = [line for line in capfd.readouterr().err.splitlines() if "connection" in line]
    assert logged == [said, "connections are taken again"]
    learner.channel.close()
    host.close()
    real.until(host.is_alive, SECONDS, "who is closed not to be alive")


def test_a_connection_that_gets_no_thread_is_not_the_last(
    host: ActorHost, begun: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = threading.Thread.start, threading.Event()

    def start_later(thread: threading.Thread) -> None:
        # Whatever else this process does may have its threads.
        if thread._target == host._talk and not refused.is_set():  # type: ignore[attr-defined]
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_later)
    with socket.create_connection(("127.0.0.1", host.port)) as other:
        other.settimeout(SECONDS)
        assert other.recv(1) == b"", "who cannot be heard is hung up on"
    assert begun().welcome.error == ""
