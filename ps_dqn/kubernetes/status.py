"""How a run on Kubernetes is: a table of its roles, what is in their way, what it says itself."""

from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from ps_dqn.kubernetes import kubectl
from ps_dqn.kubernetes.kubectl import KubectlError
from ps_dqn.kubernetes.names import ROLES
from ps_dqn.kubernetes.running import Object, Running, is_true, name
from ps_dqn.run import terminal

# The counts of the ConfigMap, for pods of a JobSet or a TFJob.
COUNTS = {"worker": "NUM_WORKERS", "parameter-server": "NUM_PS"}
LEAST_COLUMNS = 100  # where no terminal says how many it has


class Row(NamedTuple):
    """How the pods of a role are."""

    role: str
    ready: int
    wanted: int
    restarts: int
    state: str
    why: str  # something is in their way, or no text


def show(running: Running) -> None:
    """Prints how a run is."""
    rows = [row for row in (_row(running, role) for role in ROLES) if row]
    table = Table(box=None, pad_edge=False)
    for title in ("role", "ready", "restarts", "state"):
        table.add_column(title, no_wrap=True, justify="left")
    for row in rows:
        table.add_row(row.role, f"{row.ready}/{row.wanted}", str(row.restarts), row.state)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=LEAST_COLUMNS)
    console.print(f"{running.place.name} in namespace {running.place.namespace}")
    terminal.show(console, table)
    for line in [f"{row.role}: {row.why}" for row in rows if row.why]:
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"the coordinator's last line: {_last_line(running)}", markup=False)


def _row(running: Running, role: str) -> Row | None:
    pods, owner = running.pods(role), running.owner(role)
    if owner is None and not pods:
        return None
    over = running.condition(role, "Complete") or running.condition(role, "Failed")
    restarts = sum(_restarts(pod) for pod in pods)
    if ROLES[role] == "Job" and owner is not None:
        restarts += owner.get("status", {}).get("failed", 0)
    if over:
        why = over.get("message", "") if over["type"] == "Failed" else ""
        return Row(role, 0, 0, restarts, over["type"], why)
    seen = [_state(pod) for pod in pods]
    states = [state for state, _ in seen]
    counted = sorted(set(states), key=lambda state: (-states.count(state), state))
    state = ", ".join(
        each if len(pods) == 1 else f"{states.count(each)} {each}" for each in counted
    )
    wanted = _wanted(running, role, owner)
    nothing = "no pod yet" if wanted else "scaled to zero"
    why = next((why for _, why in seen if why), "")
    return Row(role, states.count("Running"), wanted, restarts, state or nothing, why)


def _wanted(running: Running, role: str, owner: Object | None) -> int:
    if owner is not None and ROLES[role] != "Job":
        return owner["spec"].get("replicas", 1)
    if role in COUNTS:
        return int(running.cluster["data"][COUNTS[role]])
    return 1


def _statuses(pod: Object) -> list[Object]:
    status = pod.get("status", {})
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]


def _restarts(pod: Object) -> int:
    return sum(each.get("restartCount", 0) for each in _statuses(pod))


def _state(pod: Object) -> tuple[str, str]:
    """In a word how a pod is, and what is in its way; `Running` where it is ready, too."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating", ""
    status = pod.get("status", {})
    for each in _statuses(pod):
        waiting = each.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in ("ContainerCreating", "PodInitializing"):
            return waiting.get("reason", "Waiting"), waiting.get("message", "")
    conditions = status.get("conditions", [])
    for each in conditions:
        if (each["type"], each["status"]) == ("PodScheduled", "False"):
            return each.get("reason", "Pending"), each.get("message", "")
    phase = status.get("phase", "Pending")
    if phase == "Running" and not any(is_true(each, "Ready") for each in conditions):
        return "not ready", ""
    return phase, ""


def _last_line(running: Running) -> str:
    pods = running.pods("coordinator")
    if not pods or pods[0].get("status", {}).get("phase", "Pending") == "Pending":
        return "none yet"
    try:
        said = kubectl.ask(running.place.kubectl("logs", f"pod/{name(pods[0])}", "--tail=1"))
    except KubectlError as error:
        return f"cannot be read ({error})"
    return said.strip() or "none yet"
