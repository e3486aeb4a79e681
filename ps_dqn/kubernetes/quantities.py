"""Kubernetes' quantities, such as 500m and 2Gi, and how much of something each role is given."""

import decimal
import re
from collections.abc import Sequence
from decimal import Decimal

from ps_dqn.errors import UsageError
from ps_dqn.kubernetes.names import ROLES

_QUANTITY = re.compile(
    r"(?P<number>\d+(\.\d*)?|\.\d+)"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,2}|)",
    re.ASCII,
)
_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
FINEST_CPU = Decimal("0.001")
# Less is a unit that was forgotten (4 are four bytes), or m, which is a thousandth of a byte.
LEAST_BYTES = 64 * 1024**2


def parse(flag: str, text: str) -> Decimal:
    """The number that a quantity stands for.

    Raises:
        UsageError: it is none, or not above 0.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{flag}: {text!r} is no quantity of Kubernetes: a number and maybe one of m, k, M, G, "
            f"T, Ki, Mi, Gi, Ti, like 500m or 2Gi"
        )
    suffix = match["suffix"]
    with decimal.localcontext() as context:
        context.prec = 60
        if suffix in _BINARY:
            value = Decimal(match["number"]) * _BINARY[suffix]
        else:
            power = int(suffix[1:]) if len(suffix) > 1 else _SUFFIXES[suffix]
            value = Decimal(match["number"]) * Decimal(10) ** power
    if not value > 0:
        raise UsageError(f"{flag}: must be above 0")
    return value


def check_cpu(flag: str, text: str) -> None:
    """Refuses what is no number of processors.

    Raises:
        UsageError: with the rule.
    """
    if parse(flag, text) % FINEST_CPU:
        raise UsageError(f"{flag}: must be a multiple of 1m, a thousandth of a processor")


def check_bytes(flag: str, text: str) -> None:
    """Refuses what is no number of bytes worth asking for.

    Raises:
        UsageError: with the rule.
    """
    value = parse(flag, text)
    if value < LEAST_BYTES:
        raise UsageError(f"{flag}: are {value.normalize():f} bytes; say a unit, like 4Gi")


def by_role(name: str, words: Sequence[str]) -> dict[str, str]:
    """What each role gets: of `2,worker=4` all get 2, but workers 4.

    Args:
        name: of the flag, cpu or memory.
        words: its value, split.

    Raises:
        UsageError: a role is unknown or is said twice, or something is no quantity.
    """
    said: dict[str, str] = {}
    for word in words:
        role, equals, quantity = word.strip().rpartition("=")
        if equals and role not in ROLES:
            raise UsageError(
                f"--{name}={','.join(words)}: {role!r} is no role: {', '.join(ROLES)}; a quantity "
                f"without a role is for all of them"
            )
        if role in said:
            raise UsageError(f"--{name}={','.join(words)}: says {role or 'all roles'} twice")
        check = check_cpu if name == "cpu" else check_bytes
        check(f"--{name}={word.strip()}", quantity)
        said[role] = quantity
    of_all = said.pop("", "")
    return {role: said.get(role, of_all) for role in ROLES if said.get(role, of_all)}
