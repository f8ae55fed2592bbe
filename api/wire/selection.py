"""Label and field selectors of a request, as one test on a body.

The same test runs on stored objects and on what the log keeps of previous states, so it reads nothing but labels,
name, namespace and the selectable fields of the kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from api.engine.selectors import PRESENT, both, marks_of_fields, marks_of_labels, parse_fields, parse_labels
from api.engine.status import bad_request
from api.wire.http import Request
from api.wire.servedkind import ServedKind
from fleet.values.ports import HintedSelector, Selector

MAX_SELECTOR_CHARS = 8 * 1024  # as long as a path may be


@dataclass(frozen=True, slots=True)
class Selection:
    """`selector` is None when everything is selected; `name` is set when it can only be one object."""

    selector: Selector | None = None
    name: str | None = None


EVERYTHING = Selection()
_PATH = re.compile(r"(^|,)(\w+)")  # the first step of each path of a field selector


def parse_selection(request: Request, served: ServedKind) -> Selection:
    """The request's labelSelector and fieldSelector; StatusError 400 for one that does not parse."""
    kind, query = served.kind, request.query
    labels, fields = query.get("labelSelector", "").strip(), query.get("fieldSelector", "").strip()
    if not labels and not fields:
        return EVERYTHING
    if len(labels) > MAX_SELECTOR_CHARS or len(fields) > MAX_SELECTOR_CHARS:
        raise bad_request("the selector is too long")
    if served.renamed:
        fields = _PATH.sub(lambda found: found[1] + served.stored_name(found[2]), fields)
    terms, requirements = parse_fields(kind, fields), parse_labels(labels)
    names = [term.value for term in terms if term.path == "metadata.name" and not term.negated]
    selector = both(kind, labels, fields)
    if selector is not None:
        present = [one for one in requirements if one.operator in PRESENT]
        # Of labels with these values there are fewer than of labels with any.
        label = min(present, key=lambda one: one.operator != "in", default=None)
        marks = marks_of_labels(present) + marks_of_fields(terms)
        if label is None:
            selector = HintedSelector(selector, marks=marks)
        else:
            values = label.values if label.operator == "in" else None
            alone = len(requirements) == 1 and not terms and label.operator in ("in", "exists")
            selector = HintedSelector(selector, label.key, values, alone, marks)
    return Selection(selector, names[0] if names else None)
