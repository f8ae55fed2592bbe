"""Places for open streams: bounded in all and by user, so that nobody fills them for the others."""

from __future__ import annotations

import pytest

from api.engine.status import StatusError
from api.wire.places import Places


def test_one_user_takes_no_more_than_her_share() -> None:
    places = Places(3, 2, "streams")
    mine = [places.take("ann") for _ in range(2)]
    with pytest.raises(StatusError, match="you have 2 streams open, the most") as refused:
        places.take("ann")
    assert (refused.value.code, refused.value.retry_after_s) == (429, 5)
    places.take("bob")
    with pytest.raises(StatusError, match="too many streams are open at once"):
        places.take("eve")
    mine[0].leave()
    mine[0].leave()
    assert len(places) == 2
    places.take("eve")
