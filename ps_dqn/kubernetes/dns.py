"""Which pods answer names in a cluster, where these are not the usual ones."""

import re
from typing import NamedTuple

from ps_dqn.errors import UsageError

PORT = 53
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
_SAID = re.compile(
    rf"(?P<namespace>{_PART})/(?P<label>({_PART}(\.{_PART})*/)?{_NAME})=(?P<value>{_NAME})"
    r"(:(?P<port>\d{1,5}))?",
    re.ASCII,
)


class Dns(NamedTuple):
    """Pods by their namespace and a label, and the port that they listen on."""

    namespace: str
    label: str
    value: str
    port: int


def read(text: str) -> Dns | None:
    """The pods of NAMESPACE/LABEL=VALUE or NAMESPACE/LABEL=VALUE:PORT; None: the usual ones.

    Raises:
        UsageError: it says something else.
    """
    if not text:
        return None
    match = _SAID.fullmatch(text)
    port = int(match["port"] or PORT) if match else 0
    if match is None or not 0 < port < 2**16:
        raise UsageError(
            f"--dns={text}: must be NAMESPACE/LABEL=VALUE of the pods that answer names, with "
            f":PORT where they listen on another than {PORT}, like kube-system/k8s-app=kube-dns"
        )
    return Dns(match["namespace"], match["label"], match["value"], port)
