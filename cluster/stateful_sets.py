"""StatefulSets that nobody needs any more, scaled to zero: so their pods free their nodes.

The Kubernetes API is asked as this pod's service account, which must be allowed to patch the scale
of these sets. Whatever fails is said, and changes nothing else.
"""

import http.client
import json
import os
import pathlib
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence

# What Kubernetes mounts into a pod that has a service account.
ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
# An API server may be restarting; each attempt may take so long, and so long is between two
# (seconds).
ATTEMPTS, ATTEMPT_SECONDS, PAUSE_SECONDS = 3, 10.0, 3.0
_TOO_MANY, _FIRST_OF_SERVER = 429, 500  # HTTP
_HOST = "KUBERNETES_SERVICE_HOST"  # of the environment: the API's address


class ApiError(Exception):
    """The Kubernetes API cannot be asked, or says no; the text is for people."""


def is_pod() -> bool:
    """Whether this process is in a pod of Kubernetes."""
    return bool(os.environ.get(_HOST))


def scale_to_zero(names: Sequence[str], say: Callable[[str], None]) -> None:
    """Scales StatefulSets of this pod's namespace to zero, and says what came of it."""
    for name in names:
        try:
            _scale_to_zero(name)
        except ApiError as error:
            say(
                f"{name} keeps its pods: {error}; kubectl scale statefulset/{name} --replicas=0 "
                f"frees their nodes"
            )
        else:
            say(f"{name} is scaled to zero: its pods free their nodes")


def _scale_to_zero(name: str) -> None:
    request, opener = _request(name)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with opener.open(request, timeout=ATTEMPT_SECONDS):
                return
        except urllib.error.HTTPError as error:
            passes = error.code == _TOO_MANY or error.code >= _FIRST_OF_SERVER
            why = f"the Kubernetes API says {error.code}, {_message(error)}"
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            passes, why = True, f"the Kubernetes API does not answer ({cause})"
        if not passes or attempt == ATTEMPTS:
            raise ApiError(why)
        time.sleep(PAUSE_SECONDS)


def _request(name: str) -> tuple[urllib.request.Request, urllib.request.OpenerDirector]:
    host = os.environ.get(_HOST, "")
    if not host:
        raise ApiError(f"this is no pod of Kubernetes ({_HOST} is not set)")
    host = f"[{host}]" if ":" in host else host
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        token = (ACCOUNT / "token").read_text(encoding="utf-8").strip()
        namespace = (ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
        trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    except OSError as error:
        raise ApiError(f"this pod has no service account's token ({error})") from None
    request = urllib.request.Request(
        f"https://{host}:{port}/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}/scale",
        json.dumps({"spec": {"replicas": 0}}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"},
        method="PATCH",
    )
    # Not through a proxy, which does not lead to the cluster's own addresses.
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
    return request, urllib.request.build_opener(*handlers)


def _message(error: urllib.error.HTTPError) -> str:
    """What the API says of it (a Status), or HTTP's own words."""
    try:
        return " ".join(str(json.loads(error.read())["message"]).split())
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return str(error.reason)
