"""Probes, polled as a kubelet does it."""

import concurrent.futures
import dataclasses
import http.client
import time
from collections.abc import Callable
from typing import Any

from support.pods import network
from support.pods.fields import refuse_unknown
from support.pods.network import Interface

# One for each pod that may be slow to answer, and the kubelet waits for none of them.
_THREADS = 16
_FIELDS = {
    "httpGet",
    "periodSeconds",
    "timeoutSeconds",
    "failureThreshold",
    "terminationGracePeriodSeconds",
}


@dataclasses.dataclass(frozen=True)
class Probe:
    """What to ask, how often, and how many answers in a row count."""

    path: str
    port: int
    period: float  # seconds
    timeout: float  # seconds
    failure_threshold: int
    grace_seconds: float | None  # for a container it fails; None: the pod's

    @classmethod
    def read(cls, manifest: dict[str, Any], ports: dict[str, int]) -> "Probe":
        """A probe as a container says it; a port may go by its name."""
        request = manifest["httpGet"]
        refuse_unknown("probe", manifest, _FIELDS)
        refuse_unknown("httpGet", request, {"path", "port"})
        return cls(
            request["path"],
            ports.get(request["port"], request["port"]),
            manifest.get("periodSeconds", 10),
            manifest.get("timeoutSeconds", 1),
            manifest.get("failureThreshold", 3),
            manifest.get("terminationGracePeriodSeconds"),
        )


@dataclasses.dataclass
class _Polled:
    """Where one probe of one container stands."""

    probe: Probe
    due: float
    answer: concurrent.futures.Future | None = None
    failures: int = 0


class Prober:
    """Asks pods from the node's own address, without keeping anybody waiting."""

    def __init__(self, node: Interface):
        self._threads = concurrent.futures.ThreadPoolExecutor(
            _THREADS, "probe", network.enter, (node,)
        )

    def ask(self, address: str, probe: Probe) -> concurrent.futures.Future:
        """Whether the pod answers well, once that is known."""
        return self._threads.submit(
            lambda: get(address, probe.port, probe.path, probe.timeout)[0] in range(200, 400)
        )

    def get(self, address: str, port: int, path: str, seconds: float) -> tuple[int, str]:
        """A page of a pod; see `get`."""
        return self._threads.submit(get, address, port, path, seconds).result()

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def get(address: str, port: int, path: str, seconds: float) -> tuple[int, str]:
    """A page's status and text; 0 and what went wrong where nobody answers."""
    connection = http.client.HTTPConnection(address, port, timeout=seconds)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()


class Probes:
    """The probes of one container, from its start to its end."""

    def __init__(
        self,
        probes: dict[str, Probe],
        ask: Callable[[Probe], concurrent.futures.Future],
    ):
        """Begins with the startup probe, if there is one; the others wait until it succeeds.

        Args:
            probes: of startup, liveness and readiness.
            ask: asks the container.
        """
        now = time.monotonic()
        self._polled = {kind: _Polled(probe, now) for kind, probe in probes.items()}
        self._ask = ask
        self.started = "startup" not in probes
        self.ready = self.started and "readiness" not in probes
        self.failed: Probe | None = None  # which says: kill it

    def tick(self) -> None:
        """Looks at the answers that are there, and asks again where it is time."""
        for kind, polled in self._polled.items():
            if self.started == (kind == "startup"):
                continue
            if polled.answer is not None and polled.answer.done():
                self._hear(kind, polled, polled.answer.result())
                polled.answer = None
            now = time.monotonic()
            if polled.answer is None and now >= polled.due:
                polled.due = now + polled.probe.period
                polled.answer = self._ask(polled.probe)

    def _hear(self, kind: str, polled: _Polled, is_well: bool) -> None:
        polled.failures = 0 if is_well else polled.failures + 1
        is_bad = polled.failures >= polled.probe.failure_threshold
        if kind == "readiness":
            self.ready = is_well or (self.ready and not is_bad)
            return
        if is_bad:
            self.failed = polled.probe
        elif kind == "startup" and is_well:
            self.started = True
            self.ready = "readiness" not in self._polled
