"""A run as a Kustomize overlay, and the manifests that it is made of."""

import json

from ps_dqn.kubernetes import dns
from ps_dqn.kubernetes.names import COMPONENT, COMPONENTS, INSTANCE, MADE_OF, ROLES
from ps_dqn.kubernetes.plan import Image, Launch, Storage

FLAGFILE = "experiment.flags"
# Beside the overlay: the manifests that it is made of, and patches of the user's.
MANIFESTS, PATCHES = "manifests", "patches"
# The first line of what may be written anew.
MARK = "# Written by ps_dqn.launch, which overwrites it; take this line away to keep your changes."
# Of runs without parameter servers.
ALL_REDUCE = "components/all-reduce"
# Roles that most runs are without.
EXTRA = ("replay-server", "actor")
# NodeLocal DNSCache, where a cluster has it.
NODE_CACHE = "169.254.20.10/32"
# Who mounts the run directory: all on one node, where only one node can mount it.
MOUNTING = ("coordinator", "evaluator", "tensorboard")


def folders(run: Launch) -> list[str]:
    """The folders of the manifests that the overlay needs beside it."""
    needed = ["base", "counts"]
    if run.overlay in COMPONENTS:
        needed += [f"components/{run.overlay}", "components/replaced"]
    elif run.overlay != "base":
        needed.append(f"overlays/{run.overlay}")
    return needed + [f"components/{each}" for each in _components(run) if each != run.overlay]


def text(run: Launch) -> str:
    """The overlay's kustomization."""
    # Strings are JSON, which YAML reads as they are: a tag may look like a number.
    name, made_of = json.dumps(run.place.name), json.dumps(" ".join(folders(run)))
    without_servers = "" if run.experiment.has_servers else f"  - {MANIFESTS}/{ALL_REDUCE}/remove\n"
    is_own = run.overlay not in ("base", *COMPONENTS)
    resources = f"overlays/{run.overlay}" if is_own else "base"
    components = "".join(f"  - {MANIFESTS}/components/{each}\n" for each in _components(run))
    assemble = ""
    if run.overlay in COMPONENTS:
        assemble = f"  - {MANIFESTS}/components/{run.overlay}/assemble\n"
    return f"""\
{MARK}
# It runs with kubectl apply --kustomize and this folder, which has all it needs.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: {json.dumps(run.place.namespace)}
namePrefix: {json.dumps(f"{run.place.name}-")}
resources:
  - {MANIFESTS}/{resources}
{f"components:{chr(10)}{components}" if components else ""}labels:
  - pairs: {{{INSTANCE}: {name}}}
    includeSelectors: true # so that runs can share a namespace
    includeTemplates: true
replicas:
  - {{name: worker, count: {run.workers}}}
  - {{name: parameter-server, count: {run.ps}}}
{_extra_count(run)}images:
{_images(run)}configMapGenerator:
  - {{name: experiment, behavior: replace, files: [{FLAGFILE}]}}
patches:
  - target: {{kind: ConfigMap, name: cluster}}
    patch: |-
      - {{op: replace, path: /data/RUN, value: {name}}}
      - {{op: add, path: /metadata/annotations, value: {{{MADE_OF}: {made_of}}}}}
  - target: {{kind: Namespace}} # deleting this run must not take the namespace's others with it
    patch: |-
      {{$patch: delete, apiVersion: v1, kind: Namespace, metadata: {{name: any}}}}
{_resources(run)}{_storage(run.storage)}{_one_node(run)}{_dns(run)}{_freed(run)}{_own_patches(run)}transformers:
  - {MANIFESTS}/counts
{without_servers}{_extra_counts(run)}{_worker_image(run)}{assemble}"""


def _components(run: Launch) -> list[str]:
    wanted = {
        run.overlay: run.overlay in COMPONENTS,
        "tls": run.tls_image is not None,
        "free-nodes": run.free_nodes,
        **dict.fromkeys((each.component for each in run.extra), True),
        ALL_REDUCE.rpartition("/")[2]: not run.experiment.has_servers,
    }
    return [each for each, is_wanted in wanted.items() if is_wanted]


def _extra_count(run: Launch) -> str:
    """How many replay servers or actors there are, among the `replicas:`."""
    return "".join(f"  - {{name: {each.role}, count: {each.pods}}}\n" for each in run.extra)


def _extra_counts(run: Launch) -> str:
    """What copies that to where the addresses are made of it."""
    needed = dict.fromkeys(each.component for each in run.extra)
    return "".join(f"  - {MANIFESTS}/components/{each}/counts\n" for each in needed)


def _freed(run: Launch) -> str:
    """Whom the coordinator frees, where it is not workers and parameter servers alone."""
    if not run.free_nodes or (run.experiment.has_servers and not run.extra):
        return ""
    wanted = [
        "WORKER",
        *(["PARAMETER_SERVER"] if run.experiment.has_servers else []),
        *(each.variable for each in run.extra),
    ]
    sets = ",".join(f"$({name})" for name in wanted)
    # Of a flag said twice the last one counts.
    at = "/spec/template/spec/containers/0/args/-"
    return _patch("Job", "coordinator", {at: f"--free_stateful_sets={sets}"})


def _images(run: Launch) -> str:
    named = {"ps-dqn": run.image, "ps-dqn-tls": run.tls_image}
    return "".join(
        f"  - {json.dumps(_image(name, image))}\n" for name, image in named.items() if image
    )


def _image(name: str, image: Image) -> dict[str, str]:
    which = {"newTag": image.tag} if image.tag else {"digest": image.digest}
    return {"name": name, "newName": image.name, **which}


def _patch(kind: str, name: str, changes: dict[str, object]) -> str:
    """Values put at paths of an object; none where there is nothing to change."""
    if not changes:
        return ""
    operations = "".join(
        f"      - {{op: add, path: {path}, value: {json.dumps(value)}}}\n"
        for path, value in changes.items()
    )
    return f"  - target: {{kind: {kind}, name: {name}}}\n    patch: |-\n{operations}"


def _resources(run: Launch) -> str:
    """What is asked for is what may be taken: so no pod takes what another was promised."""
    at = "/spec/template/spec/containers/0/resources"
    given = {"cpu": run.cpu, "memory": run.memory}
    return "".join(
        _patch(
            kind,
            role,
            {
                f"{at}/{which}/{what}": quantities[role]
                for what, quantities in given.items()
                for which in ("requests", "limits")
                if role in quantities
            },
        )
        for role, kind in ROLES.items()
        if role not in EXTRA or role in {each.role for each in run.extra}
    )


def _storage(storage: Storage) -> str:
    changes: dict[str, object] = {}
    if storage.size:
        changes["/spec/resources/requests/storage"] = storage.size
    if storage.storage_class:
        changes["/spec/storageClassName"] = storage.storage_class
    if storage.access_mode:
        changes["/spec/accessModes"] = [storage.access_mode]
    return _patch("PersistentVolumeClaim", "runs", changes)


def _one_node(run: Launch) -> str:
    """The first of them that is placed may go anywhere, since its rule is about itself, too."""
    if run.storage.access_mode != "ReadWriteOnce":
        return ""
    beside = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {
            "matchLabels": {INSTANCE: run.place.name},
            "matchExpressions": [{"key": COMPONENT, "operator": "In", "values": [*MOUNTING]}],
        },
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [beside]}}
    at = "/spec/template/spec/affinity"
    return _patch("Job|Deployment", "|".join(MOUNTING), {at: affinity})


def _dns(run: Launch) -> str:
    """Whom tasks ask for names; the cache that nodes may have stays."""
    if run.dns is None:
        return ""
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": run.dns.namespace}}
    # An expression, as in the manifests: `labels:` would add to labels.
    named = {"key": run.dns.label, "operator": "In", "values": [run.dns.value]}
    pods = {"namespaceSelector": namespace, "podSelector": {"matchExpressions": [named]}}
    cache = {"ipBlock": {"cidr": NODE_CACHE}}
    # NetworkPolicy is about the port of the pod, wherever the Service listens.
    ports = [
        {"port": port, "protocol": protocol}
        for port in sorted({dns.PORT, run.dns.port})
        for protocol in ("UDP", "TCP")
    ]
    return _patch("NetworkPolicy", "dns", {"/spec/egress": [{"to": [pods, cache], "ports": ports}]})


def _own_patches(run: Launch) -> str:
    return "".join(f"  - path: {PATCHES}/{patch.name}\n" for patch in run.patches)


def _worker_image(run: Launch) -> str:
    """A transformer and no patch: `images:` would change what a patch has said."""
    if not run.worker_image:
        return ""
    return f"""\
  - |-
    apiVersion: builtin
    kind: PatchTransformer
    metadata: {{name: worker-image}}
    target: {{kind: StatefulSet, name: worker}}
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/image
        value: {json.dumps(run.worker_image)}
"""
