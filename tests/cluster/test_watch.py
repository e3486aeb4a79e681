"""Whether tasks answer: servers that do, that never do, and that are not there."""

import concurrent.futures
import socket
import threading
from collections.abc import Iterator

import grpc
import portpicker
import pytest

from ps_dqn.cluster import health, watch
from ps_dqn.cluster.spec import Task

TASK = Task("worker", 1)


class Server:
    """Answers the question unless it was told to hang."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        _, service, method = health.GET_STATUS.split("/")
        handlers = {method: grpc.unary_unary_rpc_method_handler(self._answer)}
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, handlers)]
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.goes_on.wait(60)
        return b""

    def close(self) -> None:
        self.goes_on.set()
        self._server.stop(None).wait()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "DEADLINE", 0.2)


def looks(watching: watch.Watch, times: int) -> list[dict[Task, float]]:
    return [watching.look() for _ in range(times)]


def test_a_server_that_answers_is_not_spoken_of(server: Server, monkeypatch) -> None:
    monkeypatch.setattr(watch, "DEADLINE", 30.0)  # on a machine under load, too
    assert looks(watch.Watch({TASK: server.address}), 4) == [{}] * 4


def test_a_server_is_silent_after_misses_in_a_row_until_it_answers(
    server: Server, monkeypatch
) -> None:
    watching = watch.Watch({TASK: server.address})
    server.goes_on.clear()
    assert not watching.has_answered(TASK)
    *before, silent, later = looks(watching, watch.LEAST_MISSES + 1)
    assert before == [{}] * (watch.LEAST_MISSES - 1)
    assert 0 < silent[TASK] < later[TASK]

    server.goes_on.set()
    monkeypatch.setattr(watch, "DEADLINE", 30.0)
    assert watching.look() == {}
    assert watching.has_answered(TASK)


@pytest.mark.parametrize("is_listening", [True, False])
def test_nobody_there_or_somebody_who_never_speaks(is_listening: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1] if is_listening else portpicker.pick_unused_port()
        watching = watch.Watch({TASK: f"127.0.0.1:{port}"})
        assert looks(watching, watch.LEAST_MISSES)[-1].keys() == {TASK}


def test_one_that_somebody_else_has_heard_counts_as_there() -> None:
    watching = watch.Watch({TASK: f"127.0.0.1:{portpicker.pick_unused_port()}"})
    assert looks(watching, watch.LEAST_MISSES)[-1].keys() == {TASK}
    assert not watching.has_answered(TASK)
    watching.heard(TASK)
    assert watching.has_answered(TASK)
    assert looks(watching, watch.LEAST_MISSES)[:-1] == [{}] * (watch.LEAST_MISSES - 1)


def test_the_silent_one_is_told_from_the_others(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = Task("ps", 0)
        addresses = {TASK: server.address, other: f"127.0.0.1:{listener.getsockname()[1]}"}
        watching = watch.Watch(addresses)
        # The server may miss a deadline so short, but hardly as often as it takes.
        seen = [watching.look().keys() for _ in range(20)]
    assert all(other in each for each in seen[watch.LEAST_MISSES - 1 :])
    assert {other} in [set(each) for each in seen]


def test_a_task_that_comes_back_elsewhere_is_found_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    # What the name of the task stands for, as the DNS would say.
    where = [f"127.0.0.1:{portpicker.pick_unused_port()}"]
    connect = watch.channel_to

    def channel_to(address: str) -> grpc.Channel:
        asked.append(address)
        return connect(where[0])

    monkeypatch.setattr(watch, "channel_to", channel_to)
    watching = watch.Watch({TASK: "worker-1:2222"})
    assert looks(watching, watch.LEAST_MISSES)[-1].keys() == {TASK}
    where[0] = server.address
    monkeypatch.setattr(watch, "DEADLINE", 30.0)
    # One question was still on its way to where the task was.
    assert looks(watching, 2)[-1] == {}
    assert set(asked) == {"worker-1:2222"}
