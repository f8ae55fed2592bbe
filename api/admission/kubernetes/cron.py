"""Schedules of CronJobs: five fields, or a descriptor, as robfig/cron v3 reads them, with its words."""

from __future__ import annotations

import re

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: i + 1 for i, name in enumerate(_MONTH_NAMES)}
_DAYS = {name: i for i, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_EVERY = "@every "
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|[-+]?0")


class _Wrong(ValueError):
    pass


def schedule_problem(schedule: str) -> str:
    """The first fault of a schedule; "" for a sound one."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        _, _, schedule = schedule.partition(" ")
        schedule = schedule.strip()
    if schedule.startswith("@"):
        if schedule in _DESCRIPTORS:
            return ""
        if schedule.startswith(_EVERY):
            text = schedule.removeprefix(_EVERY)
            if _DURATION.fullmatch(text):
                return ""
            return f'failed to parse duration {schedule}: time: invalid duration "{text}"'
        return f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for text, (low, high, names) in zip(fields, _FIELDS, strict=True):
            for part in filter(None, text.split(",")):
                _range(part, low, high, names)
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _range(text: str, low: int, high: int, names: dict[str, int]) -> None:
    span, *steps = text.split("/")
    ends = span.split("-")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(ends[0], names)
        if len(ends) > 2:
            raise _Wrong(f"too many hyphens: {text}")
        end = _number(ends[1], names) if len(ends) == 2 else start
    if len(steps) > 1:
        raise _Wrong(f"too many slashes: {text}")
    step = _plain(steps[0]) if steps else 1
    if steps and len(ends) == 1 and ends[0] not in ("*", "?"):
        end = high
    if start < low:
        raise _Wrong(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise _Wrong(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise _Wrong(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise _Wrong(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    found = names.get(text.lower())
    return _plain(text) if found is None else found


def _plain(text: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]{1,18}", text):
        raise _Wrong(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise _Wrong(f"negative number ({number}) not allowed: {text}")
    return number
