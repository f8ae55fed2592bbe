"""Reasons of elastic jobs that wait: they are about the least that such a job can start with, and say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fleet.bindings.elastic import least_text
from fleet.controllers.decide.snapshot import Picture
from fleet.core.model.reason import LEAST, OF_QUOTA, TABLE, Code, Reason

_LESS_HELPS = frozenset(
    {
        *(code for code in OF_QUOTA if not TABLE[code].of_jobs),
        Code.NO_MEMBER_FITS,
        Code.TOO_LARGE,
        Code.LOST_TO_OTHERS,
        Code.COLLECTS,
        Code.BEHIND_HEAD,
    }
)


def with_least(picture: Picture, reasons: Mapping[str, Reason]) -> dict[str, Reason]:
    """The reasons, where it matters with the replicas that are enough to start."""
    units, sources = picture.snapshot.units, picture.sources
    return {
        key: replace(why, numbers={**why.numbers, LEAST: least_text(sources[key].binding.body)})
        if units[key].sizes is not None and why.code in _LESS_HELPS
        else why
        for key, why in reasons.items()
    }
