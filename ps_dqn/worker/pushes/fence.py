"""Which closure a worker works for: one that another has followed changes nothing any more.

A closure may outlive those who wait for it: its coordinator was killed, or cut off from its worker,
and TensorFlow lets what runs there go on. Without a fence it would act, learn and push in the place
of the one that follows it, with tickets that are not its own.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

from ps_dqn.wire.bridge import Superseded


class Fence:
    """Numbers the closures of a worker, and turns the calls of all but the newest away.

    Calls that step environments or draw minibatches take turns, as do those that exchange; one of
    each kind may be under way at once.
    """

    def __init__(self) -> None:
        """Before the first closure."""
        self._closure = 0
        self._acting, self._exchanging = threading.Lock(), threading.Lock()

    def begin(self) -> int:
        """A closure begins; its number. What the one before is in the middle of ends first."""
        with self._acting, self._exchanging:
            self._closure += 1
            return self._closure

    def check(self, closure: int) -> None:
        """Turns a closure away that another has followed.

        Raises:
            Superseded: this one.
        """
        if closure != self._closure:
            raise Superseded

    def end(self) -> None:
        """No closure is under way that matters; a step of an environment may end later."""
        with self._exchanging:
            self._closure += 1

    def acting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method of closures, which give their number first, that steps or draws."""
        return functools.partial(self._call, self._acting, method)

    def exchanging(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method likewise that may run beside those that step."""
        return functools.partial(self._call, self._exchanging, method)

    def ending(self, method: Callable[[], Any], nothing: Any) -> Callable[..., Any]:
        """The last method of closures; `nothing` for one that another has followed.

        It says so of itself, and not by zeros: a closure that gets these asks what has failed, and
        would take the error of the one that has followed it.
        """

        def end(closure: Any) -> Any:
            with contextlib.suppress(Superseded):
                return self._call(self._acting, method, closure)
            return nothing

        return end

    def _call(
        self, lock: threading.Lock, method: Callable[..., Any], closure: Any, *inputs: Any
    ) -> Any:
        with lock:
            self.check(int(closure))
            return method(*inputs)
