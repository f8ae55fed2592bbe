"""What compares two servers asks again where a real one is not ready to answer."""

from __future__ import annotations

import httpx

from tests.api.likeness import Ask, Asker

TOO_EARLY = {"kind": "Status", "code": 429, "message": "storage is (re)initializing"}
TOO_MANY = {"kind": "Status", "code": 429, "message": "too many requests"}


async def _ask(*answers: dict[str, object]) -> tuple[int, int]:
    """The code that an asker ends with, and the answers that it left."""
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        body = left.pop(0)
        return httpx.Response(int(str(body.get("code", 200))), json=body)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://server") as client:
        said = await Asker(client).ask(Ask("a list", "GET", "/apis/example.com/v1/widgets"))
    return said.code, len(left)


async def test_it_asks_again_while_the_cache_of_a_kind_begins() -> None:
    assert await _ask(TOO_EARLY, TOO_EARLY, {"kind": "WidgetList"}) == (200, 0)


async def test_any_other_refusal_is_the_answer() -> None:
    assert await _ask(TOO_MANY, {"kind": "WidgetList"}) == (429, 1)
