"""Quantities as Kubernetes reads them, and who gets how much."""

from decimal import Decimal

import pytest

from ps_dqn.errors import UsageError
from ps_dqn.kubernetes import names, quantities

GIB = 1024**3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", 2),
        ("0.5", Decimal("0.5")),
        (".5", Decimal("0.5")),
        ("500m", Decimal("0.5")),
        ("2k", 2000),
        ("4Gi", 4 * GIB),
        ("1.5Gi", 3 * GIB // 2),
        ("4G", 4 * 10**9),
        ("1E", 10**18),
        ("1e3", 1000),
        ("12E2", 1200),
        ("3Ei", 3 * 1024**6),
        ("100u", Decimal("0.0001")),
    ],
)
def test_a_quantity_is_the_number_that_kubernetes_takes_it_for(text: str, number: Decimal) -> None:
    assert quantities.parse("--cpu", text) == number


@pytest.mark.parametrize("text", ["", "two", "2 Gi", "2gi", "2GB", "-1", "1.2.3", "Gi", "１"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no quantity of Kubernetes"):
        quantities.parse("--memory=x", text)


def test_all_roles_get_one_quantity_but_those_that_are_named() -> None:
    given = quantities.by_role("cpu", ["2", "worker=4", " coordinator=500m"])
    assert given == {**dict.fromkeys(names.ROLES, "2"), "worker": "4", "coordinator": "500m"}
    assert quantities.by_role("memory", ["worker=4Gi"]) == {"worker": "4Gi"}
    assert quantities.by_role("memory", []) == {}


@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("cpu", ["wroker=4"], "--cpu=wroker=4: 'wroker' is no role: coordinator, parameter-server"),
        ("cpu", ["worker=4", "worker=5"], "says worker twice"),
        ("cpu", ["4", "5"], "says all roles twice"),
        ("cpu", ["0"], "--cpu=0: must be above 0"),
        ("cpu", ["500u"], "must be a multiple of 1m"),
        ("memory", ["4"], "--memory=4: are 4 bytes; say a unit, like 4Gi"),
        ("memory", ["worker=4000m"], "--memory=worker=4000m: are 4 bytes"),
        ("memory", ["worker="], "'' is no quantity"),
    ],
)
def test_mistakes_are_refused(name: str, words: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        quantities.by_role(name, words)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["standard", "nfs.csi-2.example.com", "0"])
def test_a_storage_class_is_a_subdomain(name: str) -> None:
    names.check_storage_class(name)


@pytest.mark.parametrize("name", ["Fast", "a..b", "-a", "a_b", "a" * 254])
def test_other_names_of_storage_classes_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"a DNS subdomain, RFC 1123"):
        names.check_storage_class(name)
