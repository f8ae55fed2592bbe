"""The snapshot under /fleet/v1/snapshot, and the effect of edits on it under /fleet/v1/what-if.

Like decisions these are no objects, so a ClusterRole opens them by path (`nonResourceURLs`), and then they name jobs of
all namespaces. A user without that right asks about her own jobs (questions.py). A question costs two decisions and
some runs of the queue: it is answered in a thread, with a bound on its times. Users take turns, and whose questions are
too many is told to ask again (api/fairness/questions.py).
"""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.engine.status import Cause, StatusError
from api.fairness.questions import Questions
from api.wire.negotiation import read_object
from api.wire.rights import Attributes
from fleet.admission.latest import LatestSnapshots, StoredSnapshot
from fleet.core.decide import BadSnapshot
from fleet.core.foresee.edits import BadEdit, Edit
from fleet.core.foresee.forward import by_walltime
from fleet.core.foresee.history import History
from fleet.core.foresee.whatif import Comparison, drawn, what_if
from fleet.core.notation.edits import count_edits
from fleet.rest.context import JSON, RestHub, answer, hub_request, need, user_of, wrong
from fleet.rest.line import queue_paths
from fleet.rest.past import pasts
from fleet.rest.questions import EVERYTHING, Question, UnitOf

SNAPSHOT = "/fleet/v1/snapshot"
RUNS = 9  # forward, where there is a past to draw from
TIMES_S = 5.0  # that they may take
CHANGES_S = 3.0  # that the search may take for changes which start jobs that wait all the same
SEED = 1
_QUESTION = {
    "requestBody": {
        "required": True,
        "description": 'Edits, in order: {"edits": [{"DrainMember": {"member": "m"}}]}; all: docs/reference/rest.md.',
        "content": {"application/json": {"schema": {"type": "object", "required": ["edits"]}}},
    }
}


def router(hub: RestHub, snapshots: LatestSnapshots, unit_of: UnitOf, turns: Questions) -> APIRouter:
    routes = APIRouter(tags=["decisions"])

    @routes.get("/snapshot", summary="All that the next decision looks at")
    async def get_snapshot(request: Request) -> Response:
        """As `fleet decide` and `fleet what-if` take it; `now` says of when it is. Needs `get` on the path
        /fleet/v1/snapshot, as ClusterRoles name paths under `nonResourceURLs`."""
        need(request, Attributes("get", path=SNAPSHOT))
        return Response(await snapshots.raw(), media_type=JSON, headers={"cache-control": "no-cache, private"})

    @routes.post("/what-if", summary="What would be otherwise after some edits", openapi_extra=_QUESTION)
    async def post_what_if(request: Request) -> Response:
        """The jobs that would start, move, stop or wait, and when; nothing is changed. With `post` on the path
        /fleet/v1/what-if, as ClusterRoles name paths under `nonResourceURLs`, all edits and all jobs. Else Submit of a
        manifest that the user may create, edits of jobs that she may get and of queues that she sees; other people's
        jobs are counted then, and not named. 429 when too many ask at once."""
        body, _ = await read_object(hub_request(request), field_validation="Ignore")
        unknown = sorted(set(body) - {"edits"})
        if unknown:
            raise wrong(unknown[0], "is no field of a question", "FieldValueForbidden")
        if not body.get("edits"):
            need(request, EVERYTHING)
        edits: list[Edit] = []
        try:
            count_edits(body.get("edits"))
            async with turns.turn(user_of(request).name):
                question = Question(hub, request, unit_of, await snapshots.latest())
                edits = await question.edits(body.get("edits"))
                return answer(question.answer(await compared(hub, question.latest, edits)))
        except BadSnapshot as error:
            causes = [Cause(where, problem, "FieldValueInvalid") for where, problem in error.problems[:20]]
            raise StatusError(422, "Invalid", str(error)[:2000], causes=causes) from error
        except BadEdit as error:
            where = f"edits[{error.index}].{type(edits[error.index]).__name__}"
            raise wrong(f"{where}.{error.field}" if error.field else where, str(error)) from error

    return routes


async def compared(hub: RestHub, latest: StoredSnapshot, edits: list[Edit]) -> Comparison:
    """The answer to a question whose turn it is. Raises BadEdit and BadSnapshot."""
    past = await pasts(hub.store, latest.snapshot, queue_paths(hub.store), latest.now)
    return await asyncio.to_thread(_answered, latest, edits, History(past, latest.now))


def _answered(latest: StoredSnapshot, edits: list[Edit], history: History) -> Comparison:
    learnt = any(past.ended is not None for past in history.pasts)
    runs = [drawn(history, SEED, number) for number in range(RUNS)] if learnt else [by_walltime()]
    began = time.monotonic()
    return what_if(
        latest.snapshot,
        edits,
        now=latest.now,
        seed=SEED,
        runs=runs,
        enough_changes=lambda: time.monotonic() > began + CHANGES_S,
        enough=lambda: time.monotonic() > began + CHANGES_S + TIMES_S,
    )
