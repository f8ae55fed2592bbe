"""Certificates as records of version 1 have them: causes as texts, and the answers of the solver as counts alone.

Only the stages of the last answer are known, and all answers get them.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.core.model.cause import OF_SOLVER, Cause, CauseCode
from fleet.core.model.plan import Answer, Certificate, Said, Stage, VictimSearch
from fleet.core.notation.bytype import decode
from fleet.core.notation.causetexts import cause_in, causes_in

Counts = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class SaidV1:
    leaves: tuple[int, ...]
    member: tuple[int, ...]
    stages: tuple[Stage, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class VictimSearchV1:
    unit: str
    shipped: str
    why: str = ""
    stages: tuple[Stage, ...] = ()
    members: int = 0
    said: tuple[SaidV1, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificateV1:
    shipped: str
    stages: tuple[Stage, ...] = ()
    why: str = ""
    answer: Counts | None = None
    more: tuple[Counts, ...] = ()
    victims: tuple[VictimSearchV1, ...] = ()
    reclaim: str = ""
    bounds: tuple[str, ...] = ()


def certificate(document: object) -> Certificate:
    """The certificate of a plan of version 1. Raises BadSnapshot, which names the field."""
    old: CertificateV1 = decode(CertificateV1, document, "certificate")
    causes, victims = causes_in(old.why), tuple(map(_search, old.victims))
    return Certificate(
        old.shipped, old.stages, causes, _answers(old, causes), victims, cause_in(old.reclaim), old.bounds
    )


def _search(old: VictimSearchV1) -> VictimSearch:
    answers = tuple(Said(one.leaves, one.member, one.stages, cause_in(one.why)) for one in old.said)
    return VictimSearch(old.unit, old.shipped, cause_in(old.why), old.stages, old.members, answers, old.beside)


def _answers(old: CertificateV1, causes: tuple[Cause, ...]) -> tuple[Answer, ...]:
    """The answers that led to this certificate, with an empty one at the end for the question that had none. The first
    of its causes is that of the last answer that counts, where it is one of the solver's."""
    early = causes[0] if causes and causes[0].code in OF_SOLVER else None
    last = next((cause for cause in reversed(causes) if cause.code in OF_SOLVER), None)
    if Cause(CauseCode.NO_ANSWER) in causes:
        last = None
    counts = [*([old.answer] if old.answer is not None else []), *old.more]
    return (*(Answer(*one, old.stages, early) for one in counts), Answer((), (), old.stages, last))
