"""Conversion webhooks: the question to one (ConversionReview), and what its answer must be.

A kube-apiserver asks about each object by itself; here one question has many, so that a list costs one call for each
hundred objects. The refusals are those of a kube-apiserver, without the place of the object in the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from api.engine.conversion import BadConversion, restored
from api.engine.kind import Kind
from api.engine.status import StatusError, cut
from api.objects.calling import HookClient, HookFailure
from api.outgoing import OutgoingClient
from fleet.values.ports import Body, Ids, Store
from fleet.values.untyped import mapping, text, texts

TIMEOUT_S = 30.0  # of one question
OBJECTS_MAX, QUESTION_BYTES_MAX = 100, 2 << 20  # of one question; a larger object is asked about alone
ANSWER_BYTES_MAX = 8 << 20
_GROUP = "apiextensions.k8s.io"
_KNOWN = ("v1", "v1beta1")
_MESSAGE_CHARACTERS_MAX = 2_000  # of a webhook's own words


class Conversions:
    """Converts objects by the webhooks that CRDs name. Install it as `Objects.versions.converter`."""

    def __init__(self, outgoing: OutgoingClient, store: Store, ids: Ids) -> None:
        self._client, self._ids = HookClient(outgoing, store), ids

    async def convert(self, kind: Kind, bodies: Sequence[Body]) -> list[Body]:
        """The bodies in the version of `kind`, in their order. StatusError 500 where the webhook does not do it."""
        converted: list[Body] = []
        for part in _parts(bodies):
            try:
                converted += await self._asked(kind, part)
            except (HookFailure, BadConversion) as problem:
                said = f"{part[0]['apiVersion']}, Kind={kind.kind}"
                why = f"failed: {problem}" if isinstance(problem, HookFailure) else f"returned {problem}"
                raise StatusError(500, "", f"conversion webhook for {said} {why}") from None
        return converted

    async def _asked(self, kind: Kind, bodies: Sequence[Body]) -> list[Body]:
        assert kind.family is not None and kind.family.webhook is not None
        webhook = kind.family.webhook
        versions = texts(webhook.get("conversionReviewVersions"))
        version = next((known for known in versions if known in _KNOWN), "")
        if not version:
            raise HookFailure("no supported conversion review versions")
        uid = self._ids.uid()
        question = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{version}",
            "request": {"uid": uid, "desiredAPIVersion": kind.api_version, "objects": bodies},
        }
        content = await self._client.post(
            mapping(webhook.get("clientConfig")), orjson.dumps(question), timeout=TIMEOUT_S, limit=ANSWER_BYTES_MAX
        )
        found = _objects(version, uid, content)
        if len(found) != len(bodies):
            raise BadConversion(f"{len(found)} objects, expected {len(bodies)}")
        return [_checked(kind, body, one) for body, one in zip(bodies, found, strict=True)]


def _parts(bodies: Sequence[Body]) -> Iterator[list[Body]]:
    """The bodies in parts that one question takes."""
    part: list[Body] = []
    size = 0
    for body in bodies:
        weight = len(orjson.dumps(body))
        if part and (len(part) == OBJECTS_MAX or size + weight > QUESTION_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(body)
        size += weight
    if part:
        yield part


def _objects(version: str, uid: str, content: bytes) -> list[Any]:
    """The converted objects of an answer. HookFailure where it is not one, or says that it has none."""
    try:
        review = mapping(orjson.loads(content))
    except orjson.JSONDecodeError:
        raise HookFailure("the answer is not JSON") from None
    response = review.get("response")
    if version == "v1" and (review.get("apiVersion") != f"{_GROUP}/v1" or review.get("kind") != "ConversionReview"):
        raise HookFailure(f"expected webhook response of {_GROUP}/v1, Kind=ConversionReview, got another kind")
    if response.__class__ is not dict:
        raise HookFailure("no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise HookFailure(f'expected response.uid="{uid}", got another one')
    result = mapping(response.get("result"))
    status = text(result.get("status"))
    if status != "Success":
        message = cut(text(result.get("message")), _MESSAGE_CHARACTERS_MAX)
        raise HookFailure(message or f"response.result.status was '{cut(status, 100)}', not 'Success'")
    found = response.get("convertedObjects")
    return found if found.__class__ is list else []


def _checked(kind: Kind, original: Body, converted: Any) -> Body:
    """A converted object, if it is the original in the version of `kind`; BadConversion otherwise."""
    result = mapping(converted)
    where = "invalid object at index 0"
    if result.get("apiVersion") != kind.api_version:
        received = cut(text(result.get("apiVersion")), 100)
        raise BadConversion(f"{where}: invalid groupVersion (expected {kind.api_version}, received {received})")
    if result.get("kind") != kind.kind:
        received = cut(text(result.get("kind")), 100)
        raise BadConversion(f"{where}: invalid kind (expected {kind.kind}, received {received})")
    return restored(original, result)
