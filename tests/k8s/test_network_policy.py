"""The Kubernetes manifests: who may reach whom.

NetworkPolicy is evaluated here over labels, as its reference has it; whether a cluster's network
plugin enforces it is not tested.
"""

import dataclasses
import itertools
from typing import Any

import pytest
from support import manifests
from support.manifests import EVERYTHING, Object, Pods, of_kind, pods, render

everything = pytest.mark.parametrize("name", EVERYTHING)
COORDINATOR, SERVER, WORKER = "coordinator", "parameter-server", "worker"
GRPC, TLS, HEALTH, DNS, HTTPS = 2222, 2443, 8080, 53, 443


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where packets come from or go to: a pod, or an address outside the cluster."""

    name: str
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    address: str = ""


@dataclasses.dataclass(frozen=True)
class Policies:
    """The NetworkPolicies of one namespace."""

    objects: list[Object]
    namespace: str

    def allow(self, source: Endpoint, target: Endpoint, port: int, protocol: str = "TCP") -> bool:
        """Whether packets pass, out of the one and into the other."""
        return self._passes("Egress", "to", source, target, port, protocol) and self._passes(
            "Ingress", "from", target, source, port, protocol
        )

    def _passes(
        self, direction: str, peers: str, own: Endpoint, peer: Endpoint, port: int, protocol: str
    ) -> bool:
        applying = [
            each["spec"]
            for each in self.objects
            if direction in each["spec"]["policyTypes"]
            and own.namespace == self.namespace
            and manifests.matches(each["spec"]["podSelector"], dict(own.labels))
        ]
        rules = [rule for spec in applying for rule in spec.get(direction.lower(), [])]
        return not applying or any(
            {"port": port, "protocol": protocol} in rule["ports"]
            and (peers not in rule or any(self._is(selector, peer) for selector in rule[peers]))
            for rule in rules
        )

    def _is(self, selector: Object, peer: Endpoint) -> bool:
        if "ipBlock" in selector:
            return selector["ipBlock"] == {"cidr": f"{peer.address}/32"}
        if peer.address:
            return False
        names = {"kubernetes.io/metadata.name": peer.namespace}
        in_namespace = (
            manifests.matches(selector["namespaceSelector"], names)
            if "namespaceSelector" in selector
            else peer.namespace == self.namespace
        )
        return in_namespace and manifests.matches(
            selector.get("podSelector", {}), dict(peer.labels)
        )


def _endpoint(each: Pods, namespace: str, **more: str) -> Endpoint:
    return Endpoint(each.role, namespace, tuple({**each.labels, **more}.items()))


def _network(name: str) -> tuple[Policies, list[Endpoint]]:
    """The policies, and everybody there is: the roles first."""
    objects = render(name)
    roles = pods(objects)
    namespace = roles[0].owner["metadata"].get("namespace", "default")
    others = [
        Endpoint("stranger", namespace, (("app", "other"),)),
        Endpoint("dns", "kube-system", (("k8s-app", "kube-dns"),)),
        Endpoint("kube-system", "kube-system", (("k8s-app", "other"),)),
        Endpoint("prometheus", "monitoring", (("app", "prometheus"),)),
        Endpoint("node-dns", address="169.254.20.10"),
        Endpoint("internet", address="203.0.113.7"),
    ]
    others += [_endpoint(each, "elsewhere") for each in roles]  # another cluster of the same kind
    others = [dataclasses.replace(each, name=f"{each.name} of others") for each in others]
    policies = Policies(of_kind(objects, "NetworkPolicy"), namespace)
    return policies, [*(_endpoint(each, namespace) for each in roles), *others]


def _flows(policies: Policies, endpoints: list[Endpoint]) -> set[tuple[str, str, int, str]]:
    """What passes, of all that has one of our pods at an end."""
    ports = list(itertools.product((GRPC, TLS, HEALTH, 6006, DNS, HTTPS), ("TCP", "UDP")))
    ours = {each for each in endpoints if not each.name.endswith("of others")}
    return {
        (source.name, target.name, *port)
        for source, target in itertools.permutations(endpoints, 2)
        if {source, target} & ours
        for port in ports
        if policies.allow(source, target, *port)
    }


def _wanted(port: int) -> set[tuple[str, str, int, str]]:
    """All there need be, where tasks call each other on a port."""
    pairs = [(COORDINATOR, WORKER), (COORDINATOR, SERVER), (WORKER, SERVER), (SERVER, WORKER)]
    calls = {(source, target, port, "TCP") for source, target in pairs}
    if port == GRPC:  # what tasks are at
        calls |= {(COORDINATOR, target, port, "UDP") for target in (WORKER, SERVER)}
    looks_up = {
        (role, dns, DNS, protocol)
        for role in (COORDINATOR, SERVER, WORKER)
        for dns in ("dns of others", "node-dns of others")
        for protocol in ("TCP", "UDP")
    }
    scraped = {
        ("prometheus of others", role, HEALTH, "TCP")
        for role in (COORDINATOR, SERVER, WORKER, "evaluator")
    }
    return calls | looks_up | scraped


@everything
def test_the_network_lets_through_what_is_needed_and_nothing_else(name: str) -> None:
    policies, endpoints = _network(name)
    wanted = _wanted(TLS if "tls" in name else GRPC)
    if "free" in name:  # the Kubernetes API, wherever that is
        others = [each.name for each in endpoints if each.name.endswith("of others")]
        wanted |= {(COORDINATOR, other, HTTPS, "TCP") for other in others}
    assert _flows(policies, endpoints) == wanted


@everything
def test_pods_of_one_role_do_not_reach_each_other(name: str) -> None:
    policies, endpoints = _network(name)
    for each in endpoints:
        other = dataclasses.replace(each, name="another of the role")
        if not each.name.endswith("of others"):
            assert _flows(policies, [each, other]) == set()


def test_a_second_cluster_in_the_namespace_is_kept_out() -> None:
    policies, endpoints = _network("own base")
    instance = {"app.kubernetes.io/instance": "yours"}
    roles = pods(render("own base"))
    yours = [_endpoint(each, policies.namespace, **instance) for each in roles]
    yours = [dataclasses.replace(each, name=f"your {each.name} of others") for each in yours]
    assert _flows(policies, [*endpoints, *yours]) == _wanted(GRPC)


def test_without_a_policy_everything_passes() -> None:
    _, endpoints = _network("base")
    nothing: Any = Policies([], "default")
    assert ("stranger of others", WORKER, GRPC, "TCP") in _flows(nothing, endpoints)
