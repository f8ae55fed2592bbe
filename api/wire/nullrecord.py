"""What the API says about a request while it answers, and the record of a request that nobody keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from api.objects.writing import User
    from api.wire.http import Request, Response
    from api.wire.rights import Attributes, Authorizer


class NullRecord:
    """A record that takes everything and keeps nothing. Each method may be called at any time."""

    __slots__ = ()

    def known(self, request: Request, user: User) -> None:
        """The request has a user, by its credentials."""

    def acts_as(self, user: User) -> None:
        """The user acts as another one."""

    def decided(self, authorizer: Authorizer, user: User, attributes: Attributes, allowed: bool) -> None:
        """Authorisation has answered."""

    def given(self, body: Any) -> None:
        """The body of the request, as it was read."""

    def answered(self, answer: Response) -> None:
        """The whole answer, before it gets the form that the client wants."""

    def started(self, code: int) -> None:
        """The head of the answer is sent."""

    def broke(self) -> None:
        """An exception that nobody expected ends the request."""

    def over(self) -> None:
        """Nothing more is sent."""


UNRECORDED = NullRecord()
