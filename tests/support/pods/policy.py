"""NetworkPolicies as rules of iptables, with counters."""

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from support.manifests import matches
from support.pods import network
from support.pods.network import NODE, Interface

Object = dict[str, Any]
Port = tuple[str, int]  # protocol and number
ANY = -1  # number
_COUNTED = re.compile(r'\[(\d+):\d+\] -A (\w+) .*--comment "(\S+)>(\S+) (allowed|refused)"')


@dataclasses.dataclass(frozen=True)
class Member:
    """Something with an address in the pods' network."""

    name: str
    labels: dict[str, str]
    interface: Interface


class Policy:
    """One NetworkPolicy."""

    def __init__(self, manifest: Object):
        self._spec = manifest["spec"]

    def isolates(self, labels: dict[str, str], direction: str) -> bool:
        """Whether pods with these labels may do in a direction only what is allowed."""
        is_of = matches(self._spec["podSelector"], labels)
        return is_of and direction.capitalize() in self._spec["policyTypes"]

    def ports(self, direction: str, peer: dict[str, str]) -> set[Port]:
        """The ports open to a peer with these labels, ingress or egress."""
        found: set[Port] = set()
        side = {"ingress": "from", "egress": "to"}[direction]
        for rule in self._spec.get(direction, []):
            if side not in rule or any(_takes(each, peer) for each in rule[side]):
                given = rule.get("ports", [{"port": ANY}])
                found |= {(each.get("protocol", "TCP").lower(), each["port"]) for each in given}
        return found


class Firewall:
    """Enforces policies in every pod's own namespace, and counts connections."""

    def __init__(self, policies: Sequence[Policy]):
        self._policies = policies
        self._counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self._members: list[Member] = []

    def enforce(self, members: Sequence[Member]) -> None:
        """Puts the rules for these members, in the place of those that were there."""
        still = {member.interface for member in members}
        self._collect([each for each in self._members if each.interface in still])
        self._members = [*members]
        for member in members:
            network.command(*_in(member, "iptables-restore"), stdin=self._rules(member, members))

    def counts(self) -> collections.Counter[tuple[str, str, str]]:
        """Connections tried so far, by source, target and verdict (allowed, refused).

        Packets are counted: a connection that is refused is tried again by the system.
        """
        self.enforce(self._members)
        return self._counts.copy()

    def _collect(self, members: Sequence[Member]) -> None:
        for member in members:
            for line in network.command(*_in(member, "iptables-save", "-c")).splitlines():
                found = _COUNTED.match(line)
                # What both ends allow is counted once, at the target.
                if found and (found[2], found[5]) != ("OUTPUT", "allowed"):
                    self._counts[found[3], found[4], found[5]] += int(found[1])

    def _rules(self, member: Member, members: Sequence[Member]) -> str:
        lines = ["*filter", ":INPUT DROP [0:0]", ":OUTPUT DROP [0:0]"]
        for chain, device, end in (("INPUT", "-i", "-s"), ("OUTPUT", "-o", "-d")):
            lines += [
                f"-A {chain} {device} lo -j ACCEPT",
                f"-A {chain} -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
                f"-A {chain} {end} {NODE} -j ACCEPT",
            ]
            for peer in members:
                if peer is not member:
                    lines += self._between(chain, end, member, peer)
        return "\n".join([*lines, "COMMIT", ""])

    def _between(self, chain: str, end: str, member: Member, peer: Member) -> list[str]:
        source, target = (peer, member) if chain == "INPUT" else (member, peer)
        direction = "ingress" if chain == "INPUT" else "egress"
        begins = f"-A {chain} {end} {peer.interface.address}"
        comment = f'-m comment --comment "{source.name}>{target.name}'
        lines = []
        for protocol, port in sorted(self._ports(direction, member.labels, peer.labels)):
            which = "" if port == ANY else f" -p {protocol} --dport {port}"
            lines.append(f'{begins}{which} {comment} allowed" -j ACCEPT')
        return [*lines, f'{begins} {comment} refused" -j DROP']

    def _ports(self, direction: str, own: dict[str, str], peer: dict[str, str]) -> set[Port]:
        isolating = [each for each in self._policies if each.isolates(own, direction)]
        if not isolating:
            return {("tcp", ANY)}
        return set().union(*(each.ports(direction, peer) for each in isolating))


def _takes(peer: Object, labels: dict[str, str]) -> bool:
    """Whether a rule's peer is a pod of this namespace with these labels."""
    if "namespaceSelector" in peer or "ipBlock" in peer:  # nobody here is of another namespace
        return False
    return matches(peer["podSelector"], labels)


def _in(member: Member, *words: str) -> list[str]:
    return ["ip", "netns", "exec", member.interface.namespace, *words]
