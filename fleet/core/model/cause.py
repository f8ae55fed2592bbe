"""Every cause that a certificate names, in one table: code, numbers, and the one text that people see.

A certificate says whose answer the plan is, and its causes say why: why greedy's, why no answer came, what the question
left out. Programs compare codes and read numbers; nothing reads a text. The names of numbers stand in the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class CauseCode(StrEnum):
    # There was no question.
    NOT_ASKED = "NotAsked"
    ALL_PLACED = "AllPlaced"
    NO_OTHER = "NoOtherFits"
    NO_OTHER_HERE = "NoOtherFitsOnThoseNodes"
    TOO_LARGE = "TooLarge"
    # Greedy's answer is at least as good.
    AS_GOOD = "AsGood"
    BETTER = "Better"
    ONE_BY_ONE_AS_GOOD = "OneByOneAsGood"
    ONE_BY_ONE_BETTER = "OneByOneBetter"
    # The solver's own causes, of an answer that ends early or is none.
    STARTING = "Starting"
    LATE = "Late"
    FAILED = "Failed"
    NO_TIME = "NoTimeLeft"
    # What became of its answers.
    NO_ANSWER = "NoAnswer"
    FOREIGN = "ForeignAnswer"
    NOT_PACKED = "NotPacked"
    ASKED_OFTEN = "AskedOften"
    LEFT_OUT = "LeftOut"
    # Victims.
    QUESTIONS = "QuestionsAsked"
    TIME_OVER = "TimeForVictimsOver"
    TOO_MANY_VICTIMS = "TooManyVictims"
    NO_VICTIMS = "NoVictimsInTime"
    TRIED = "TriesMade"
    INSUFFICIENT = "VictimsDoNotSuffice"
    # Units that might take room back and were not looked at.
    PREEMPTORS = "PreemptorsLookedAt"
    TRIES = "TriesOfDecision"
    HOPELESS = "NoRoomForKinds"
    # The checker.
    DROPPED = "CheckerDropped"
    REFUSED_ALL = "CheckerRefusedAll"
    REFUSED_SOLVER = "CheckerRefusedSolver"
    # A text of an older release that this one does not know.
    OLDER = "Older"


TABLE: Mapping[CauseCode, str] = {
    CauseCode.NOT_ASKED: "no solver was asked",
    CauseCode.ALL_PLACED: "optimal: everything that may start is placed",
    CauseCode.NO_OTHER: "optimal: no other gang could start",
    CauseCode.NO_OTHER_HERE: "optimal: no other gang could start on the nodes that are there",
    CauseCode.TOO_LARGE: "too large for the solver: {lanes} lanes",
    CauseCode.AS_GOOD: "greedy is as good",
    CauseCode.BETTER: "greedy is better",
    CauseCode.ONE_BY_ONE_AS_GOOD: "one by one is as good",
    CauseCode.ONE_BY_ONE_BETTER: "one by one is better",
    CauseCode.STARTING: "the solver is still starting",
    CauseCode.LATE: "the solver was stopped at its deadline of {limit_s} s",
    CauseCode.FAILED: "the solver failed ({detail})",
    CauseCode.NO_TIME: "no time is left in this decision",
    CauseCode.NO_ANSWER: "the solver found no answer",
    CauseCode.FOREIGN: "the solver's answer does not belong to the problem",
    CauseCode.NOT_PACKED: "a part of the answer did not pack, and the model takes no more of its nodes",
    CauseCode.ASKED_OFTEN: "the solver was asked {questions} times, and a part of each answer did not pack",
    CauseCode.LEFT_OUT: "the model has no {part}",
    CauseCode.QUESTIONS: "{questions} questions were asked",
    CauseCode.TIME_OVER: "the time for finding victims is over",
    CauseCode.TOO_MANY_VICTIMS: "too many units could leave for the solver",
    CauseCode.NO_VICTIMS: "the solver found no answer in its time",
    CauseCode.TRIED: "the tries for it were made",
    CauseCode.INSUFFICIENT: "the solver's choices do not suffice",
    CauseCode.PREEMPTORS: "{gangs} gangs were looked at",
    CauseCode.TRIES: "{tries} tries were made",
    CauseCode.HOPELESS: "no room for {kinds} kinds of gangs",
    CauseCode.DROPPED: "the checker dropped {starts}: {fault}",
    CauseCode.REFUSED_ALL: "the checker refused everything: {fault}",
    CauseCode.REFUSED_SOLVER: "the checker refused cp-sat's plan",
    CauseCode.OLDER: "{text}",
}

PARTS: Mapping[str, str] = {
    "bands": "bands below the first {most}",
    "capped_users": "the caps of {users} users",
    "links": "queue {queue} behind its first {most} kinds of gangs in a row",
    "domain_variables": "racks",
    "bound_lanes": "room beside reservations",
    "span_tries": "room beside some reservations",
    "span_terms": "quota beside reservations",
}
"""The part of the question that has no model, by the bound of `Bounds` that was met: `bound` of LEFT_OUT. The bound
`domain_variables` is in records of older releases only."""

OPTIMAL = (CauseCode.ALL_PLACED, CauseCode.NO_OTHER, CauseCode.NO_OTHER_HERE)  # greedy's answer is proven best
NO_WORSE = (CauseCode.AS_GOOD, CauseCode.BETTER)  # and so has the bounds of the solver's
OF_SOLVER = (CauseCode.STARTING, CauseCode.LATE, CauseCode.FAILED, CauseCode.NO_TIME)


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `numbers` holds the values of its text, and what programs may want beside: the `bound` of LEFT_OUT,
    the `rule` that the checker saw broken."""

    code: CauseCode
    numbers: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """For people. A number that a record lacks is shown as "?"."""
        return TABLE[self.code].format_map(_Shown(self.numbers, part=self.part))

    @property
    def part(self) -> str:
        """The part of the question that LEFT_OUT is about, in words."""
        bound = str(self.numbers.get("bound"))
        return PARTS.get(bound, bound).format_map(_Shown(self.numbers))


class _Shown(dict[str, str]):
    def __init__(self, numbers: Mapping[str, str | int | float], **more: str) -> None:
        super().__init__({name: f"{n:g}" if isinstance(n, float) else str(n) for name, n in numbers.items()} | more)

    def __missing__(self, name: str) -> str:
        return "?"


def left_out(bound: str, **numbers: str | int) -> Cause:
    """The cause that a part of the question has no model, since this bound of `Bounds` was met."""
    return Cause(CauseCode.LEFT_OUT, {"bound": bound, **numbers})


def in_words(causes: Iterable[Cause], words: Mapping[CauseCode, str] = MappingProxyType({})) -> str:
    """All causes of one certificate for people; all parts without a model in one sentence, the last. `words`: what
    stands in place of some texts."""
    causes = list(causes)
    parts = [cause.part for cause in causes if cause.code is CauseCode.LEFT_OUT]
    texts = [words.get(cause.code, cause.text) for cause in causes if cause.code is not CauseCode.LEFT_OUT]
    return "; ".join([*texts, f"the model has no {', no '.join(parts)}"] if parts else texts)
