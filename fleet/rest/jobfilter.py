"""Which jobs are asked for, and where the asker may see them: for the list of jobs and for their watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, get_origin
from urllib.parse import parse_qs

from pydantic import Field, ValidationError
from starlette.requests import Request

from api.engine.kind import Kind
from api.engine.selectors import holds, parse_labels
from api.engine.status import StatusError, bad_request
from api.wire.rights import Attributes
from fleet.bindings import binding as b
from fleet.rest.context import user_of
from fleet.rest.errors import malformed
from fleet.rest.models import Model
from fleet.rest.periods import Moment
from fleet.rest.sight import spaces
from fleet.rest.standing import StoredJob, state_of
from fleet.rest.states import State
from fleet.values.ports import Body
from fleet.values.times import seconds
from fleet.wellknown import ANNOTATION_CREATOR

STREAM_S, STREAM_MOST_S = 3600.0, 6 * 3600.0
PARAMETERS_MAX = 200
Name = Annotated[str, Field(min_length=1, max_length=253)]


class JobFilter(Model):
    """Which jobs."""

    namespace: str | None = Field(None, min_length=1, max_length=63, description="Only of this namespace.")
    kind: list[str] = Field([], max_length=20, description="Only of these kinds, e.g. PyTorchJob. May be repeated.")
    state: list[State] = Field([], max_length=20, description="Only in these states. May be repeated.")
    queue: str | None = Field(None, min_length=1, max_length=1000, description="Only in this queue or one below it.")
    member: str | None = Field(None, min_length=1, max_length=253, description="Only in this member.")
    name: list[Name] = Field([], max_length=100, description="Only of these names. May be repeated.")
    user: str | None = Field(None, min_length=1, max_length=1000, description="Only those that this user created.")
    labelSelector: str = Field("", max_length=4000, description="Only with such labels: team=a,stage!=test.")
    since: Moment | None = Field(None, description="Only those created at this time or later, RFC 3339.")

    def takes(self, job: StoredJob) -> bool:
        """Whether a job is one of them by what belongs to it: its state, queue and member."""
        if not self.lies(b.member_of(job.binding), job.queue):
            return False
        return not self.state or state_of(job) in self.state

    def lies(self, member: str | None, queue: str | None) -> bool:
        """Whether a job is one of them by its place."""
        if self.member is not None and member != self.member:
            return False
        return self.queue is None or f"{queue or ''}/".startswith(self.queue.rstrip("/") + "/")

    def of_object(self) -> Callable[[Body], bool] | None:
        """Whether a job is one of them by its own metadata; None where nothing of it was asked for. StatusError 400 for
        a selector that cannot be read."""
        if not (self.user or self.labelSelector or self.since):
            return None
        labels = parse_labels(self.labelSelector)
        since = self.since.timestamp() if self.since else 0.0

        def asked_for(body: Body) -> bool:
            metadata = body["metadata"]
            theirs = self.user in (None, b.annotation(body, ANNOTATION_CREATOR))
            return (
                theirs
                and (seconds(metadata.get("creationTimestamp")) or 0.0) >= since
                and holds(labels, metadata.get("labels"))
            )

        return asked_for

    def places(self, request: Request, kinds: Sequence[Kind]) -> dict[str, tuple[Kind, list[str | None]]]:
        """By kind, the namespaces whose jobs may be shown; [None]: all. With names, the right to `get` these jobs is
        enough. StatusError 403 where there are none."""
        found = {kind.group_resource: (kind, self._places(request, kind)) for kind in kinds}
        if any(there for _, there in found.values()):
            return found
        if len(kinds) == 1:
            wanted = Attributes("list", kinds[0].group, kinds[0].resource, namespace=self.namespace or "")
            raise wanted.refusal(user_of(request))
        where = f'in the namespace "{self.namespace}"' if self.namespace else "in any namespace"
        user = user_of(request).name
        raise StatusError(403, "Forbidden", f'jobs are forbidden: User "{user}" cannot list jobs {where}')

    def _places(self, request: Request, kind: Kind) -> list[str | None]:
        there = spaces(request, "list", kind, self.namespace)
        if there or not self.name:
            return there
        each = [spaces(request, "get", kind, self.namespace, name) for name in self.name]
        return [space for space in each[0] if all(space in others for others in each)]


class JobWatch(JobFilter):
    """Which jobs to watch, from when and how long."""

    resourceVersion: int = Field(
        0, ge=0, description="Only what has changed since this bookmark; 0: all of them first."
    )
    timeoutSeconds: float = Field(STREAM_S, gt=0, le=STREAM_MOST_S, description="The stream ends then.")


def watch_of(query: str) -> JobWatch:
    """The parameters of a request. StatusError 422 names those that are wrong."""
    try:
        parameters = parse_qs(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError:
        raise bad_request(f"more than {PARAMETERS_MAX} query parameters") from None
    several = {name for name, one in JobWatch.model_fields.items() if get_origin(one.annotation) is list}
    try:
        return JobWatch.model_validate(
            {name: values if name in several else values[-1] for name, values in parameters.items()}
        )
    except ValidationError as error:
        raise malformed(error.errors()) from None
