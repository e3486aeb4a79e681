"""What an operator does with a run that is there: reads its logs, stops it, resizes it."""

import json

from ps_dqn.errors import UsageError
from ps_dqn.kubernetes import kubectl, running
from ps_dqn.kubernetes.names import COMPONENTS, Place
from ps_dqn.kubernetes.running import Running, name

# What the manifests make, in the order in which it goes: what has pods first, since these need the
# others until they have saved; who frees nodes has a role; results are kept unless asked for.
WORKLOADS = ("job", "statefulset", "deployment")
AROUND = ("service", "networkpolicy", "poddisruptionbudget", "configmap")
ROLES_OF_PODS = ("rolebinding", "role", "serviceaccount")
DATA = ("persistentvolumeclaim",)


def logs(run: Running, role: str, follow: bool, tail: int) -> None:
    """Shows what the pods of a role say.

    Raises:
        UsageError: it has no pod.
        KubectlError: kubectl failed.
    """
    pods = run.pods(role)
    if not pods:
        raise UsageError(
            f"--role={role}: {run.place.name} has no pod of it now; {run.place.launch('status')} "
            f"says how it is"
        )
    words = [f"--tail={tail}", *(["--follow"] if follow else [])]
    if len(pods) == 1:
        kubectl.run(run.place.kubectl("logs", f"pod/{name(pods[0])}", *words))
        return
    # kubectl would follow five.
    words += ["--prefix", f"--max-log-requests={len(pods)}", run.place.selector(role)]
    kubectl.run(run.place.kubectl("logs", *words))


def stop(place: Place, delete_data: bool) -> None:
    """Deletes what was launched; the run directory only where it is asked for.

    Raises:
        UsageError: there is no such run.
        KubectlError: kubectl failed.
    """
    found = running.get(place, ",".join(("configmap", *DATA)), place.selector())
    if not found:
        raise running.missing(place)
    folders = running.made_of(found)
    own = [each for each in COMPONENTS if f"components/{each}" in folders]
    print(f"{place.name}: its pods save and end, which may take 75 s", flush=True)
    # In the foreground it returns when the pods are gone.
    _delete(place, [*own, *WORKLOADS], "--cascade=foreground")
    roles = ROLES_OF_PODS if "components/free-nodes" in folders else ()
    _delete(place, [*roles, *AROUND])  # the ConfigMap last: it says what there is to delete
    if delete_data:
        _delete(place, [*DATA])
        print(f"{place.name} is deleted, and its results")
    else:
        print(f"{place.name} is stopped; its volume is kept, and launched again it goes on")


def _delete(place: Place, kinds: list[str], *words: str) -> None:
    kubectl.run(
        [*place.kubectl("delete", ",".join(kinds), *words), "--ignore-not-found", place.selector()]
    )


def check_resizable(run: Running, workers: int) -> None:
    """Refuses to change the number of workers where the run cannot take it.

    Raises:
        UsageError: why, and what to do.
    """
    said, again = f"--workers={workers}: {run.place.name}", "stop it and launch it again with them"
    fixed = {
        "components/jobset": "is a JobSet, which cannot be changed",
        "components/tfjob": "is a TFJob, whose tasks are told once who is there",
        "components/tls": "speaks TLS through sidecars, which are told once who is there",
    }
    for folder, why in fixed.items():
        if folder in run.made_of:
            raise UsageError(f"{said} {why}: {again}")
    for kind in ("Complete", "Failed"):
        if run.condition("coordinator", kind):
            raise UsageError(f"{said} is over ({kind}), so no worker is needed")
    if run.owner("coordinator") is None or run.owner("worker") is None:
        raise UsageError(f"{said} has no coordinator or no workers to change: {again}")
    if workers == int(run.cluster["data"]["NUM_WORKERS"]):
        raise UsageError(f"{said} has as many already")


def resize(run: Running, workers: int) -> None:
    """Changes the number of workers: the coordinator saves, and goes on with those.

    Raises:
        KubectlError: kubectl failed.
    """
    place, owner = run.place, run.owner("worker")
    assert owner is not None
    # Who starts from now on reads it: workers that are new, and the next coordinator.
    counts = json.dumps({"data": {"NUM_WORKERS": str(workers)}})
    change = ("--type=merge", f"--patch={counts}")
    kubectl.run(place.kubectl("patch", f"configmap/{name(run.cluster)}", *change))
    kubectl.run(place.kubectl("scale", f"statefulset/{name(owner)}", f"--replicas={workers}"))
    if run.pods("coordinator"):
        print("the coordinator saves and ends; its Job starts it again 10 s later or more")
        # Its Job does not count this end (75) and starts another one.
        kubectl.run([*place.kubectl("delete", "pod"), place.selector("coordinator")])
