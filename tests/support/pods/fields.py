"""What this runner refuses, because it would not do what Kubernetes does."""

from collections.abc import Iterable


class UnknownFieldError(ValueError):
    """The manifests say something that this runner does not do."""


def refuse_unknown(what: str, given: Iterable[str], known: set[str]) -> None:
    """Refuses fields that are not among those known.

    Raises:
        UnknownFieldError: there are some.
    """
    unknown = sorted(set(given) - known)
    if unknown:
        raise UnknownFieldError(f"{what}: {', '.join(unknown)}")
