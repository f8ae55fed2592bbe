"""The jobs after which a job starts: those that its annotation names, and what the hub has seen of each.

The annotation of the job, copied to its binding, is `NAME[:ok|:any][,NAME...]`. The hub notes on the binding which of
them it has seen, and which are met: a job that was met stays met when it is deleted. A binding without this note waits,
so that nothing starts before the hub has looked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

import orjson

from fleet.bindings import binding as b
from fleet.core.model.reason import Code, Reason
from fleet.kinds import kind_word
from fleet.values.ports import Body
from fleet.values.untyped import mapping, text, texts
from fleet.wellknown import ANNOTATION_AFTER, ANNOTATION_AFTER_SEEN

T = TypeVar("T", bound=Hashable)  # a job, in the terms of the caller

OK, ANY = "ok", "any"
MOST = 50  # jobs that one job may name
_NAMED_MOST = 3  # in one reason
_CIRCLE_MOST = 200  # jobs that are looked at in search of a circle
CODES = (Code.AFTER, Code.NEVER_AFTER)  # of the reasons of a job that waits for others
_WORDS = {OK: "has succeeded", ANY: "is over"}


@dataclass(frozen=True, slots=True)
class After:
    """One job to wait for: NAME, KIND/NAME or KIND.GROUP/NAME. `outcome`: OK until it has succeeded, ANY until it is
    over."""

    job: str
    outcome: str = OK

    def __str__(self) -> str:
        return f"{self.job}:{self.outcome}"

    @property
    def kind(self) -> str:
        """ "" for any kind."""
        return self.job.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.job.rpartition("/")[2]

    def takes(self, group: str, kind: str) -> bool:
        """Whether a job of this kind is meant: by the name that people use, or with its group."""
        return self.kind.lower() in ("", kind_word(group, kind).lower(), f"{kind}.{group}".lower())

    @property
    def condition(self) -> str:
        return f"{self.job} {_WORDS[self.outcome]}"


@dataclass(frozen=True, slots=True)
class AfterProgress:
    """What the hub has noted: entries that are met, jobs that have been there, and why the job waits or `never`
    starts."""

    met: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    waits: str = ""
    never: str = ""

    def __str__(self) -> str:
        return orjson.dumps(asdict(self)).decode()


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a job does not start yet, or never does."""

    text: str
    never: bool = False

    @property
    def reason(self) -> Reason:
        return Reason(Code.NEVER_AFTER, {"why": self.text}) if self.never else Reason(Code.AFTER, {"jobs": self.text})


def read(value: str) -> tuple[After, ...]:
    """The jobs that the annotation names. Raises ValueError, which says the fault."""
    afters: dict[str, After] = {}
    for entry in filter(None, (part.strip() for part in value.split(","))):
        job, colon, outcome = entry.partition(":")
        one = After(job, outcome if colon else OK)
        if not one.name or one.outcome not in _WORDS or job.count("/") > 1 or (job.startswith("/")):
            raise ValueError(f'"{entry}" is not of the form NAME, NAME:ok, NAME:any or KIND/NAME')
        afters[str(one)] = one
    if not afters:
        raise ValueError("names no job")
    if len(afters) > MOST:
        raise ValueError(f"names {len(afters)} jobs, and {MOST} are the most")
    return tuple(afters.values())


def entries(binding: Body) -> tuple[After, ...]:
    """The jobs that a binding waits for; none where the annotation cannot be read, which admission keeps out."""
    said = b.annotation(binding, ANNOTATION_AFTER)
    try:
        return read(said) if said else ()
    except ValueError:
        return ()


def progress(binding: Body) -> AfterProgress:
    """What the hub has noted of them; nothing where the note cannot be read."""
    said = b.annotation(binding, ANNOTATION_AFTER_SEEN)
    try:
        noted = mapping(orjson.loads(said)) if said else {}
    except ValueError:
        noted = {}
    return AfterProgress(
        texts(noted.get("met")), texts(noted.get("jobs")), text(noted.get("waits")), text(noted.get("never"))
    )


def open_entries(binding: Body) -> tuple[After, ...]:
    """Those that are not met yet."""
    every = entries(binding)
    met = progress(binding).met if every else ()
    return tuple(one for one in every if str(one) not in met)


def obstacle(binding: Body) -> Obstacle | None:
    """Why the job does not start yet; None when nothing of this keeps it."""
    still = open_entries(binding)
    if not still:
        return None
    noted = progress(binding)
    return Obstacle(noted.never, never=True) if noted.never else Obstacle(noted.waits or entries_text(still))


def entries_text(still: Sequence[After]) -> str:
    """In words: "a has succeeded and b is over"."""
    named = [one.condition for one in still[:_NAMED_MOST]]
    more = [f"{len(still) - _NAMED_MOST} more"] if len(still) > _NAMED_MOST else []
    return " and ".join([*named, *more])


def circle(start: T, beside: Callable[[T], Iterable[T]]) -> list[T]:
    """The shortest way from a job back to itself, with the job at both ends; empty where there is none, or none among
    the jobs that are looked at. `beside`: the jobs one step on."""
    came: dict[T, T] = {}
    line = [start]
    for job in line:
        for other in beside(job):
            if other == start:
                way = [start, job]
                while way[-1] != start:
                    way.append(came[way[-1]])
                return way[::-1]
            if other not in came and len(line) < _CIRCLE_MOST:
                came[other] = job
                line.append(other)
    return []


def waits_for_itself(jobs: Sequence[tuple[str, str]]) -> str:
    """In words, of a circle of jobs (kind, name), each after the next."""
    named = [f"{kind.lower()}/{name}" for kind, name in jobs]
    if len(named) > 2 * _NAMED_MOST:
        named = [*named[:_NAMED_MOST], "…", *named[-_NAMED_MOST:]]
    return f"it waits for itself: {' after '.join(named)}"
