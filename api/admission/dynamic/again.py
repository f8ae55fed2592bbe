"""The second round of changes: those who ask for it see the object once more when another one changed it after them."""

from __future__ import annotations

from fleet.values.ports import Body


class RoundState:
    """The state of one kind of changers (policies, or webhooks) over the two rounds of a request."""

    def __init__(self) -> None:
        self._invoked: set[str] = set()  # since the last change, of those that ask to be invoked again
        self._due: set[str] = set()
        self._left: Body | None = None  # the object as their turn ended

    def begin(self, current: Body | None, *, second: bool) -> None:
        if second and current != self._left:
            self.changed()

    def end(self, current: Body | None) -> None:
        self._left = current

    def changed(self) -> None:
        """The object has changed: all that were invoked before are due in the second round."""
        self._due |= self._invoked
        self._invoked = set()

    def invoked(self, key: str) -> None:
        self._invoked.add(key)

    def is_due(self, key: str) -> bool:
        return key in self._due
