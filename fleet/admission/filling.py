"""The values that the webhook of an operator would fill in, put into the body of a job."""

from __future__ import annotations

from api.engine.kind import Kind
from fleet.kinds import interpreter_for
from fleet.values.ports import Body


def filled(kind: Kind, body: Body) -> Body:
    """What `Objects` asks for each body, before the schema of its kind is asked."""
    interpreter = interpreter_for(kind)
    return body if interpreter is None or body.__class__ is not dict else interpreter.filled(body)
