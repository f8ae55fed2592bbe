"""Jobs under /fleet/v1/jobs: list, look at, submit, delete.

A list is a view of this moment, not of a revision: position and state are worked out as it is made. Pages therefore go
on after the last job shown, so that a job which is there all the time is shown exactly once.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.audit.requests import tell
from api.engine.kind import Kind
from api.engine.status import StatusError, not_found
from api.objects.writing import Options
from api.slices import unhurried
from api.wire.rights import Attributes
from fleet.bindings import after
from fleet.bindings.heartbeat import silence_of
from fleet.core.foresee.explanation import document
from fleet.kinds import kind_word, named_kind
from fleet.rest.context import RestHub, alone, answer, encoded, hub_request, need, user_of, wrong
from fleet.rest.explanations import Explanations
from fleet.rest.jobfilter import JobFilter
from fleet.rest.line import Line, Lines, queue_paths
from fleet.rest.manifest import Manifest, inside, read_manifests, refusal_of
from fleet.rest.matching import JobMatcher
from fleet.rest.models import Explanation, JobDetail, JobList, Model, Submitted
from fleet.rest.sight import jobs_seen
from fleet.rest.standing import StoredJob, detail, row, unreadable, waits
from fleet.rest.states import State
from fleet.rest.storedjob import stands
from fleet.rest.targets import job_kind, job_kinds
from fleet.values.ports import Body, Key, StoredObject

LIMIT, LIMIT_MAX, OFFSET_MAX = 500, 10_000, 10_000_000
DryRun = Literal["", "true", "false", "All"]
Place = tuple[str, str, str]  # namespace, name, kind


class JobPage(JobFilter):
    """Which jobs, and how many of them."""

    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="At most so many.")
    continue_: str = Field("", alias="continue", max_length=2000, description="As the page before said.")
    offset: int = Field(0, ge=0, le=OFFSET_MAX, description="So many jobs less, of those that would come first.")


class WriteOptions(Model):
    """How to write."""

    dryRun: DryRun = Field("", description="true: all checks, and nothing is stored.")

    @property
    def dry(self) -> bool:
        return self.dryRun in ("true", "All")


class SubmitOptions(WriteOptions):
    namespace: str | None = Field(None, min_length=1, max_length=63, description="When the manifest names none.")
    fieldValidation: Literal["Strict", "Warn", "Ignore"] = Field("Strict", description="Of fields that do not exist.")


class DeleteOptions(WriteOptions):
    propagationPolicy: Literal["Background", "Foreground", "Orphan"] = Field("Background")


Namespace = Annotated[str, Path(description="Namespace of the job.")]
KindName = Annotated[str, Path(description="PyTorchJob, pytorchjobs, …")]
Name = Annotated[str, Path(description="Name of the job.")]
_MANIFEST = {
    "requestBody": {
        "required": True,
        "description": "A manifest as kubectl takes it, in JSON or YAML; or several: a List, or a stream of documents.",
        "content": {
            media: {"schema": {"type": "object", "required": ["apiVersion", "kind", "metadata", "spec"]}}
            for media in ("application/json", "application/yaml")
        },
    }
}


def router(hub: RestHub, lines: Lines, explanations: Explanations) -> APIRouter:
    routes = APIRouter(tags=["jobs"])
    jobs = Jobs(hub, lines, explanations)

    @routes.get("/jobs", response_model=JobList, summary="List jobs")
    async def list_jobs(request: Request, query: Annotated[JobPage, Query()]) -> Response:
        """In order of namespace, name and kind. Shows the jobs of the kinds asked for (without `kind`: of every one) in
        the namespaces where the user may `list` them, and says so in `partial` when those are not all. 403 when there
        are none. With `name`, the right to `get` that job is enough."""
        return await jobs.list(request, query)

    @routes.get("/jobs/{namespace}/{kind}/{name}", response_model=JobDetail, summary="Look at a job")
    async def get_job(request: Request, namespace: Namespace, kind: KindName, name: Name) -> Response:
        """Needs `get` on it."""
        return await jobs.get(request, namespace, kind, name)

    @routes.get("/jobs/{namespace}/{kind}/{name}/explanation", response_model=Explanation, summary="Why a job waits")
    async def explain_job(request: Request, namespace: Namespace, kind: KindName, name: Name) -> Response:
        """Its reason, its position, when it will start, and the smallest changes that would start it now, worked out
        from the newest snapshot of the fleet. It takes some seconds at most; the answer is kept for ten. 404 for a job
        that does not wait; 429 when too many ask at once. Needs `get` on the job."""
        return await jobs.explain(request, namespace, kind, name)

    @routes.post(
        "/jobs", response_model=JobDetail | Submitted, status_code=201, summary="Submit a job", openapi_extra=_MANIFEST
    )
    async def submit_job(request: Request, query: Annotated[SubmitOptions, Query()]) -> Response:
        """Creates the object, with all the checks of the Kubernetes API. Needs `create` on its kind in its namespace,
        which is `default` when neither the manifest nor the parameter names one. Several manifests, as a List or as a
        YAML stream, are all checked before the first is stored; the answer has an item for each, with status 207 when
        one of them was refused after that."""
        return await jobs.submit(request, query)

    @routes.delete("/jobs/{namespace}/{kind}/{name}", response_model=JobDetail, summary="Delete a job")
    async def delete_job(
        request: Request, namespace: Namespace, kind: KindName, name: Name, query: Annotated[DeleteOptions, Query()]
    ) -> Response:
        """Answers with the job as it was, in state Deleted, or Deleting while something still holds it. Its copy in a
        member goes too. Needs `delete` on it."""
        return await jobs.delete(request, namespace, kind, name, query)

    return routes


class Jobs:
    """The routes, apart from their declarations."""

    def __init__(self, hub: RestHub, lines: Lines, explanations: Explanations) -> None:
        self._hub = hub
        self._lines = lines
        self._explanations = explanations
        self._matching = JobMatcher(hub)

    async def list(self, request: Request, query: JobPage) -> Response:
        registry, store = self._hub.registry, self._hub.store
        kinds = [job_kind(registry, name, "kind") for name in query.kind] or job_kinds(registry)
        places = query.places(request, kinds)
        after = decode_continue(query.continue_) if query.continue_ else None
        revision = await store.revision(
            alone=alone(request)
        )  # from here on this process has seen all that was acknowledged before
        asked_for = query.of_object()
        line = await self._lines.at(revision)
        paths = queue_paths(store)
        among = await self._matching.keys(query, revision, paths)
        rows = [
            _Rows(kind, store.scan(kind.group, kind.resource, namespace=namespace), asked_for, query.name, among, after)
            for kind, namespaces in places.values()
            for namespace in namespaces
        ]
        items: list[orjson.Fragment] = []
        filtered = bool(query.state or query.queue or query.member)
        looked_at, before, last = 0, query.offset, None
        async for place, kind, stored in unhurried(merge(*rows, key=itemgetter(0))):
            looked_at += 1
            if before and not filtered:
                before -= 1
                continue
            try:
                fragment = encoded(self._row)(kind, stored, paths, line, query)
            except Exception:  # it costs itself its row, and the others nothing
                fragment = encoded(unreadable)(kind, stored.key)
            if fragment is not None and before:
                before -= 1
            elif fragment is not None:
                items.append(fragment)
                last = place
                if len(items) == query.limit:
                    break
        remaining = sum(map(len, rows)) - looked_at
        return answer(
            {
                "items": items,
                "continue": encode_continue(last) if remaining and last is not None else None,
                "remaining": None if filtered else remaining,
                "partial": any(there != [query.namespace] for _, there in places.values()),
                "notice": self._notice(),
            }
        )

    def _notice(self) -> str | None:
        """The notice above all answers about jobs: no decider works on them."""
        return silence_of(self._hub.store, self._hub.objects.clock.now()) or None

    def _row(
        self, kind: Kind, stored: StoredObject, paths: dict[str, str], line: Line, query: JobFilter
    ) -> dict[str, Any] | None:
        """None for a job that was not asked for."""
        job = self._stands(kind, stored.body, stored.uid, paths)
        return row(job, line.position(job.unit)) if query.takes(job) else None

    def _stands(self, kind: Kind, body: Body, uid: str, paths: dict[str, str]) -> StoredJob:
        return stands(self._hub.store, kind, body, uid, paths, self._notice() or "")

    async def _detail(self, request: Request, kind: Kind, body: Body, uid: str) -> dict[str, Any]:
        revision = await self._hub.store.revision(alone=alone(request))
        job = self._stands(kind, body, uid, queue_paths(self._hub.store))
        if job.unit is None or not waits(job.unit):
            return detail(job, None)
        return detail(job, (await self._lines.at(revision)).position(job.unit))

    async def _looked_up(
        self, request: Request, namespace: str, kind_name: str, name: str
    ) -> tuple[Kind, StoredObject]:
        kind = job_kind(self._hub.registry, kind_name, "kind")
        need(request, Attributes("get", kind.group, kind.resource, namespace=namespace, name=name))
        key = Key(kind.group, kind.resource, namespace, name)
        stored = await self._hub.store.get(key, alone=alone(request))
        if stored is None:
            raise not_found(kind.group, kind.resource, name)
        return kind, stored

    async def get(self, request: Request, namespace: str, kind_name: str, name: str) -> Response:
        kind, stored = await self._looked_up(request, namespace, kind_name, name)
        return answer(await self._detail(request, kind, stored.body, stored.uid))

    async def explain(self, request: Request, namespace: str, kind_name: str, name: str) -> Response:
        kind, stored = await self._looked_up(request, namespace, kind_name, name)
        await self._hub.store.revision(alone=alone(request))
        job = self._stands(kind, stored.body, stored.uid, {})
        if job.binding is None:
            raise StatusError(
                404,
                "NotFound",
                job.silence
                or job.in_the_way
                or f"no policy has taken {kind_word(kind.group, kind.kind)} {namespace}/{name}",
            )
        now = self._hub.objects.clock.now()
        found = await self._explanations.of(str(job.binding["metadata"]["uid"]), now, user_of(request).name)
        told = document(found, named_kind, reader=namespace, may_see=jobs_seen(self._hub, request))
        told = _behind(told, after.obstacle(job.binding))
        return answer({**told, "notice": self._notice()})

    async def submit(self, request: Request, query: SubmitOptions) -> Response:
        inner = hub_request(request)
        read = await read_manifests(inner, self._hub.registry, query.namespace, query.fieldValidation)
        options = Options(user_of(request), inner.agent, query.dry, query.fieldValidation)
        if isinstance(read, list):
            return await self._submit_all(request, read, options)
        shown, warnings = await self._submit_one(request, read, options)
        where = f"/fleet/v1/jobs/{shown['namespace']}/{shown['kind']}/{shown['name']}"
        return answer(shown, 201, warnings=warnings, headers={} if query.dry else {"location": where})

    async def _submit_one(
        self, request: Request, manifest: Manifest, options: Options
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The job in detail, and the warnings about it."""
        kind, namespace = manifest.kind, manifest.namespace
        need(request, Attributes("create", kind.group, kind.resource, namespace=namespace))
        if not options.dry_run:
            tell(request.scope, kind.group, kind.kind, namespace, manifest.body, stored=False)
        written = await self._hub.objects.create(kind, namespace, manifest.body, options)
        if not options.dry_run:
            tell(request.scope, kind.group, kind.kind, namespace, written.body)
        shown = await self._detail(request, kind, written.body, written.body["metadata"].get("uid", ""))
        return shown, (*manifest.warnings, *written.warnings)

    async def _submit_all(self, request: Request, manifests: Sequence[Manifest], options: Options) -> Response:
        """None is stored before all have passed every check; a later refusal takes the place of its job."""
        tried = [await self._tried(request, number, one, options) for number, one in enumerate(manifests)]
        items, warnings = [], [text for _, texts in tried for text in texts]
        for number, (manifest, (job, _)) in enumerate(zip(manifests, tried, strict=True)):
            refusal = None
            if not options.dry_run:
                try:
                    job, _ = await self._submit_one(request, manifest, options)
                except StatusError as error:
                    refusal = refusal_of(f"items[{number}]", error).status()
            items.append({"job": None if refusal else job, "refusal": refusal})
        status = 207 if any(item["refusal"] for item in items) else 201
        return answer({"items": items}, status, warnings=tuple(dict.fromkeys(warnings)))

    async def _tried(
        self, request: Request, number: int, manifest: Manifest, options: Options
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        copied = replace(manifest, body=deepcopy(manifest.body))
        with inside(f"items[{number}]"):
            return await self._submit_one(request, copied, replace(options, dry_run=True))

    async def delete(
        self, request: Request, namespace: str, kind_name: str, name: str, query: DeleteOptions
    ) -> Response:
        kind = job_kind(self._hub.registry, kind_name, "kind")
        need(request, Attributes("delete", kind.group, kind.resource, namespace=namespace, name=name))
        options = Options(user_of(request), hub_request(request).agent, query.dry)
        how = {"propagationPolicy": query.propagationPolicy}
        written = await self._hub.objects.delete(kind, namespace, name, options, how)
        shown = await self._detail(request, kind, written.body, written.body["metadata"].get("uid", ""))
        tell(request.scope, kind.group, kind.kind, namespace, written.body)
        shown |= {"state": str(State.DELETED if written.deleted else State.DELETING), "position": None, "reason": None}
        return answer(shown, warnings=written.warnings)


class _Rows:
    """The stored jobs of one kind that were asked for and come after a page, in the store's order: by namespace and
    name. Nothing is done for a job that stands after the page."""

    def __init__(
        self,
        kind: Kind,
        stored: Sequence[StoredObject],
        asked_for: Callable[[Body], bool] | None,
        names: Collection[str],
        among: Collection[Key] | None,
        after: Place | None,
    ) -> None:
        self._kind, self._word = kind, kind_word(kind.group, kind.kind)
        if among is not None and len(among) < len(stored) / 2:  # else most of the jobs are shown anyway
            stored = [s for s in stored if s.key in among]
        if asked_for is not None or names:
            stored = [
                s for s in stored if (not names or s.key.name in names) and (asked_for is None or asked_for(s.body))
            ]
        self._stored = stored
        self._start = bisect_right(stored, after, key=self._place) if after is not None else 0

    def _place(self, stored: StoredObject) -> Place:
        return stored.key.namespace, stored.key.name, self._word

    def __len__(self) -> int:
        return len(self._stored) - self._start

    def __iter__(self) -> Iterator[tuple[Place, Kind, StoredObject]]:
        return ((self._place(s), self._kind, s) for s in islice(self._stored, self._start, None))


def encode_continue(place: Place) -> str:
    return urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def decode_continue(text: str) -> Place:
    """The place of the last job that was shown. StatusError 422 for what we did not give out."""
    try:
        namespace, name, kind = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if all(isinstance(part, str) for part in (namespace, name, kind)):
            return namespace, name, kind
    except (ValueError, Base64Error, TypeError):
        pass
    raise wrong("continue", "is not what a page said")


def _behind(explanation: dict[str, Any], obstacle: after.Obstacle | None) -> dict[str, Any]:
    """The explanation of a job that starts after others: nothing but these jobs would start it, and nothing tells when
    they are over."""
    if obstacle is None or explanation["reason"] is None or explanation["reason"]["code"] not in after.CODES:
        return explanation
    reason = obstacle.reason
    why = "never: a job that it starts after will not succeed" if obstacle.never else "it starts after other jobs"
    none = {"outcome": "NeverStarts" if obstacle.never else "NotEstimated", "p10": None, "p50": None, "p90": None}
    return {
        **explanation,
        "reason": {"code": reason.code.value, "text": reason.text, "numbers": reason.figures},
        "estimate": {**explanation["estimate"], **none, "samples": 0, "why": why},
        "changes": [],
        "without": [],
    }
