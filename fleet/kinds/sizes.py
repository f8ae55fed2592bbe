"""The size that a job says of itself, where its kind describes its pods in no way that could be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.values.quantity import BadQuantity, quantity
from fleet.values.untyped import mapping, text
from fleet.wellknown import ANNOTATION_SIZE

_DIGITS_MAX = 6


def declared_size(body: Mapping[str, Any]) -> tuple[int, dict[str, str]] | None:
    """The pods at once, and the requests of each; None where the job does not say. Raises BadQuantity."""
    said = annotation(body, ANNOTATION_SIZE)
    return size_of(said) if said else None


def annotation(body: Mapping[str, Any], name: str) -> str:
    return text(mapping(mapping(body.get("metadata")).get("annotations")).get(name))


def size_of(said: str) -> tuple[int, dict[str, str]]:
    """The size in the annotation `fleet.io/size`: `replicas=4,cpu=8,memory=32Gi,nvidia.com/gpu=2` is four pods of such
    requests; without `replicas` it is one. Raises BadQuantity."""
    replicas, requests = 1, dict[str, str]()
    for part in said.split(","):
        name, sign, amount = (word.strip() for word in part.partition("="))
        if not sign or not name or name in requests:
            raise BadQuantity(f"{part.strip()[:60]!r} is not NAME=QUANTITY, each name once")
        if name == "replicas":
            if not amount.isascii() or not amount.isdigit() or len(amount) > _DIGITS_MAX or not int(amount):
                raise BadQuantity(f"{amount[:40]!r} is no number of pods")
            replicas = int(amount)
        elif quantity(amount, name) < 0:
            raise BadQuantity(f"{name} must not be negative")
        else:
            requests[name] = amount
    if not requests:
        raise BadQuantity("it names no resource")
    return replicas, requests
