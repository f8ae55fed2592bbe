"""Jobs under /fleet/v1: what a person sees of them from submission to the end."""

from __future__ import annotations

import copy
import json
from typing import Any

import httpx
import pytest
import yaml

from fleet.rest.models import JobDetail, JobList
from fleet.rest.mount import PREFIX
from tests.controllers.fastloop import eventually
from tests.controllers.world import ALICE, member, policy, pytorchjob, tree
from tests.rest.rest import Rest, fill, rest

QUEUED = (tree(), policy(queue=True))


async def submit(hub: Rest, body: Any, *, media: str = "application/json", **params: Any) -> httpx.Response:
    content = body if isinstance(body, (bytes, str)) else json.dumps(body)
    return await hub.client().post(
        f"{PREFIX}/jobs", content=content, params=params, headers={"content-type": media, "user-agent": "notebook/1"}
    )


async def waiting(hub: Rest, name: str) -> Any:
    """The job once it waits with a reason."""
    await eventually(lambda: hub.world.message(name), what=f"{name} has a reason")
    return await hub.job(name)


async def test_a_submitted_job_is_queued_and_runs_and_every_answer_is_what_the_models_promise() -> None:
    async with rest(member("cfa"), objects=QUEUED) as hub:
        answer = await submit(hub, pytorchjob("one"))
        assert (answer.status_code, answer.headers["location"]) == (201, "/fleet/v1/jobs/default/PyTorchJob/one")
        JobDetail.model_validate(answer.json())
        assert await hub.world.running("one") == "cfa"
        job = await hub.job("one")
        JobDetail.model_validate(job)
        shown = {field: job[field] for field in ("state", "queue", "position", "member", "attempt", "reason")}
        assert shown == {
            "state": "Running",
            "queue": "root/child-2",
            "position": None,
            "member": "cfa",
            "attempt": 1,
            "reason": None,
        }
        assert (job["gpus"], job["pods"], job["requests"]["memory"]) == (3, 3, "3Gi")
        assert [component["name"] for component in job["components"]] == ["master", "worker"]
        assert job["rules"] == []
        assert job["created"] <= job["placed"] and job["enqueued"]
        assert JobList.model_validate(await hub.get("/jobs")).items[0].name == "one"


async def test_a_job_that_waits_says_why_and_at_which_place_and_the_place_moves_up() -> None:
    async with rest(member("cfa"), objects=[*QUEUED, pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await hub.world.apply(pytorchjob("two"))
        await waiting(hub, "two")
        await hub.world.apply(pytorchjob("three"))
        third = await waiting(hub, "three")
        assert (third["state"], third["position"], third["member"]) == ("Queued", 2, None)
        assert third["reason"]["code"] == "MaxJobsReached"
        assert third["reason"]["text"] == hub.world.message("three")
        assert third["reason"]["numbers"]["max"] == 1
        await hub.world.delete("PyTorchJob", "two")
        await eventually(lambda: hub.world.unit("two") is None)
        assert (await hub.job("three"))["position"] == 1


async def test_the_line_is_in_order_of_priority_then_of_time_then_of_name() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 12)
        places = {job["name"]: job["position"] for job in (await hub.get("/jobs"))["items"]}
        assert places == {f"job-{number:05}": 12 - number for number in range(12)}

        def level(body: Any) -> Any:
            body["spec"]["priority"] = 0  # as a person may, whatever the job says
            return body

        for number in range(12):
            await hub.world.objects.change(
                hub.world.registry.need("scheduling.x-k8s.io", "queueunits"),
                "default",
                f"job-{number:05}-pytorchjob-rb-qu",
                level,
                ALICE,
            )
        places = {job["name"]: job["position"] for job in (await hub.get("/jobs"))["items"]}
        assert places == {f"job-{number:05}": number + 1 for number in range(12)}


async def test_what_a_job_may_count_on_comes_before_its_priority_and_who_backs_off_has_no_place() -> None:
    async with rest(start=False, objects=[tree(name="big")]) as hub:
        await fill(hub, 5)
        units = hub.world.registry.need("scheduling.x-k8s.io", "queueunits")

        async def tell(number: int, **status: Any) -> None:
            def told(body: Any) -> Any:
                body["status"].update(status)
                return body

            await hub.world.objects.change(units, "default", f"job-{number:05}-pytorchjob-rb-qu", told, ALICE)

        for number, tier in enumerate(("Guaranteed", "Share", "Borrowed")):
            await tell(number, reason={"code": "NoMemberFits", "numbers": {"tier": tier}})
        await tell(3, reason={"code": "NotItsTurn", "numbers": {}})
        await tell(4, phase="TimeoutBackoff")
        jobs = (await hub.get("/jobs"))["items"]
        assert [(job["position"], job["tier"]) for job in jobs] == [
            (1, "Guaranteed"),
            (2, "Share"),
            (3, "Borrowed"),
            (None, None),
            (None, None),
        ]
        leaf = next(node for node in (await hub.get("/queues"))["items"] if node["path"] == "root/big")
        assert leaf["waiting"] == 5
        await tell(4, phase="Enqueued", reason={"code": "BackOff", "numbers": {}})
        assert (await hub.job("job-00004"))["position"] == 3, "its back-off is over, which its reason does not say yet"


async def test_a_held_job_has_no_place_and_takes_none() -> None:
    async with rest(member("cfa"), objects=[tree(max_jobs=0), policy(queue=True), pytorchjob("one")]) as hub:
        await waiting(hub, "one")
        await hub.world.apply(pytorchjob("two"))
        assert (await waiting(hub, "two"))["position"] == 2
        await hub.world.edit("QueueUnit", "one-pytorchjob-rb-qu", lambda unit: unit["spec"].update(active=False))
        one, two = await hub.job("one"), await hub.job("two")
        assert (one["state"], one["position"], two["position"]) == ("Held", None, 1)


async def test_a_job_that_no_policy_takes_says_so() -> None:
    async with rest(member("cfa"), objects=[pytorchjob("alone")]) as hub, hub.world.beating():
        job = await hub.job("alone")
        JobDetail.model_validate(job)
        assert (job["state"], job["reason"]["code"], job["policy"]) == ("Unclaimed", "NoPolicy", None)
        assert (job["gpus"], job["pods"], job["priority"]) == (3, 3, None)


async def test_a_job_outside_quota_waits_without_a_queue_for_a_reason() -> None:
    async with rest(member("cfa", 1, 2), objects=[policy(), pytorchjob("big", workers=0, gpus=4)]) as hub:
        await eventually(lambda: hub.world.condition(hub.world.binding("big"), "Scheduled"))
        job = await hub.job("big")
        assert (job["state"], job["queue"], job["position"]) == ("Waiting", None, None)
        assert job["reason"]["code"] == "NoClusterFit" and "Insufficient nvidia.com/gpu" in job["reason"]["text"]


async def test_what_is_wrong_where_a_job_is_shows_as_its_reason() -> None:
    async with rest(member("cfa"), objects=[policy(), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        hub.world.members.set_down("cfa", True)
        job = await hub.until("one", lambda job: job["reason"] is not None)
        assert (job["state"], job["member"], job["reason"]["code"]) == ("Running", "cfa", "MemberUnreachable")
        hub.world.members.set_down("cfa", False)
        await hub.until("one", lambda job: job["reason"] is None)


async def test_a_job_that_failed_says_what_its_member_says() -> None:
    async with rest(member("cfa"), objects=[policy(failover=None), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        hub.world.members.finish("one", "Failed")
        job = await hub.until("one", lambda job: job["state"] == "Failed")
        JobDetail.model_validate(job)
        assert (job["member"], job["reason"]["code"]) == ("cfa", "JobFailed") and job["reason"]["text"]


async def test_a_job_that_its_member_refuses_backs_off_without_a_place_and_tells_of_its_attempts() -> None:
    async with rest(member("cfa", refuse="no such queue"), objects=[*QUEUED, pytorchjob("one")]) as hub:
        job = await hub.until("one", lambda job: job["state"] == "BackOff")
        JobDetail.model_validate(job)
        assert (job["position"], job["member"], job["failures"][0]["member"]) == (None, None, "cfa")
        assert job["attempt"] >= 1 and "no such queue" in job["reason"]["text"]


async def test_a_list_is_filtered_by_namespace_kind_state_queue_and_member() -> None:
    batch = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "batch", "namespace": "team-b"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }
    async with rest(member("cfa"), objects=[*QUEUED, pytorchjob("one"), batch]) as hub:
        await hub.world.running("one")
        await hub.world.apply(pytorchjob("two"))
        await waiting(hub, "two")
        for params, names in (
            ({}, ["one", "two", "batch"]),
            ({"namespace": "default"}, ["one", "two"]),
            ({"kind": "jobs.batch"}, ["batch"]),
            ({"kind": ["Job", "pytorchjob"]}, ["one", "two", "batch"]),
            ({"state": "Running"}, ["one"]),
            ({"state": ["Queued", "Unclaimed"]}, ["two", "batch"]),
            ({"queue": "root"}, ["one", "two"]),
            ({"queue": "root/child-2", "state": "Queued"}, ["two"]),
            ({"queue": "root/child"}, []),
            ({"member": "cfa"}, ["one"]),
            ({"member": "cfb"}, []),
        ):
            assert await hub.jobs(**params) == names, params


async def test_pages_show_every_job_once_while_others_come_and_go() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 10)
        page = await hub.get("/jobs", limit=4)
        assert page["remaining"] == 6
        names = [job["name"] for job in page["items"]]
        await hub.world.delete("PyTorchJob", "job-00002")
        await hub.world.delete("PyTorchJob", "job-00005")
        while page["continue"]:
            page = await hub.get("/jobs", limit=4, **{"continue": page["continue"]})
            names += [job["name"] for job in page["items"]]
        assert names == [f"job-{number:05}" for number in range(10) if number != 5]
        filtered = await hub.get("/jobs", limit=3, queue="root/big")
        assert (len(filtered["items"]), filtered["remaining"]) == (3, None)


@pytest.mark.parametrize("query", [{}, {"state": "Queued"}, {"queue": "root/big"}])
async def test_a_page_begins_after_so_many_jobs(query: dict[str, str]) -> None:
    async with rest(start=False) as hub:
        await fill(hub, 10)
        page = await hub.get("/jobs", limit=3, offset=6, **query)
        assert [job["name"] for job in page["items"]] == ["job-00006", "job-00007", "job-00008"]
        assert page["remaining"] == (None if query else 1)
        page = await hub.get("/jobs", limit=3, **query, **{"continue": page["continue"]})
        assert ([job["name"] for job in page["items"]], page["continue"]) == (["job-00009"], None)
        page = await hub.get("/jobs", limit=3, offset=11, **query)
        assert (page["items"], page["continue"]) == ([], None)


async def test_ten_thousand_jobs_are_listed_on_one_page_with_their_places() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 10_000)
        page = await hub.get("/jobs", limit=10_000)
        assert len(page["items"]) == 10_000 and page["items"][0]["position"] == 10_000


@pytest.mark.parametrize("media", ["application/yaml", "application/json"])
async def test_a_dry_run_shows_the_job_and_stores_nothing(media: str) -> None:
    async with rest(start=False) as hub:
        body = yaml.safe_dump(pytorchjob("one")) if "yaml" in media else pytorchjob("one")
        before = await hub.world.store.revision()
        answer = await submit(hub, body, media=media, dryRun="true")
        assert (answer.status_code, answer.json()["name"]) == (201, "one") and "location" not in answer.headers
        assert await hub.world.store.revision() == before
        assert await hub.jobs() == []


async def test_a_manifest_without_a_namespace_goes_where_the_request_says_or_to_default() -> None:
    async with rest(start=False) as hub:
        for params, namespace in (({}, "default"), ({"namespace": "team-b"}, "team-b")):
            job = pytorchjob("one")
            del job["metadata"]["namespace"]
            answer = await submit(hub, job, **params)
            assert (answer.status_code, answer.json()["namespace"]) == (201, namespace), answer.text
        stored = hub.world.see("PyTorchJob", "one", "team-b")
        assert stored is not None and stored["metadata"]["managedFields"][0]["manager"] == "notebook"


def without(path: str) -> Any:
    job = copy.deepcopy(pytorchjob("one"))
    *parents, last = path.split(".")
    at: Any = job
    for parent in parents:
        at = at[parent]
    del at[last]
    return job


def having(path: str, value: Any) -> Any:
    job = copy.deepcopy(pytorchjob("one"))
    *parents, last = path.split(".")
    at: Any = job
    for parent in parents:
        at = at[parent]
    at[last] = value
    return job


WORKER = "spec.pytorchReplicaSpecs.Worker"


@pytest.mark.parametrize(
    ("body", "params", "code", "field"),
    [
        (without("kind"), {}, 422, "kind"),
        (without("apiVersion"), {}, 422, "apiVersion"),
        (without("metadata"), {}, 422, "metadata"),
        (having("kind", "Pod"), {}, 422, "kind"),
        (having("kind", 7), {}, 422, "kind"),
        (having("apiVersion", "kubeflow.org/v9"), {}, 422, "apiVersion"),
        (having("apiVersion", "batch/v1"), {}, 422, "apiVersion"),
        (having("metadata.namespace", 5), {}, 422, "metadata.namespace"),
        (pytorchjob("one"), {"namespace": "team-b"}, 422, "metadata.namespace"),
        (having("metadata.name", "No Good"), {}, 422, "metadata.name"),
        (having(f"{WORKER}.replicas", "many"), {}, 422, f"{WORKER}.replicas"),
        (pytorchjob("one"), {"dryRun": "maybe"}, 422, "dryRun"),
        (pytorchjob("one"), {"dryrun": "true"}, 422, "dryrun"),
        (pytorchjob("one"), {"fieldValidation": "Lax"}, 422, "fieldValidation"),
    ],
)
async def test_a_bad_submission_names_the_field_and_changes_nothing(
    body: Any, params: dict[str, str], code: int, field: str
) -> None:
    async with rest(start=False) as hub:
        before = await hub.world.store.revision()
        status = await hub.refused("POST", "/jobs", json=body, params=params)
        assert status["code"] == code, status
        assert field in {cause["field"] for cause in status["details"]["causes"]}, status
        assert field in status["message"]
        assert await hub.world.store.revision() == before


@pytest.mark.parametrize(
    ("content", "media", "code", "text"),
    [
        (b"{", "application/json", 400, "JSON"),
        (b"a: [", "application/yaml", 400, "YAML"),
        (b"[]", "application/json", 400, "must be one object"),
        (b"", "application/json", 400, "JSON"),
        (b"a: 1\n---\nb: [\n", "application/yaml", 400, "YAML"),
        (b"{}", "image/png", 415, "accepted media types"),
        (b'{"kind": "Job", "kind": "Job"}', "application/json", 400, 'duplicate field "kind"'),
        (b" " * (4 << 20), "application/json", 413, "too large"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(content: bytes, media: str, code: int, text: str) -> None:
    async with rest(start=False) as hub:
        status = await hub.refused("POST", "/jobs", content=content, headers={"content-type": media})
        assert status["code"] == code and text in status["message"], status


async def test_a_field_that_does_not_exist_is_refused_unless_the_request_says_warn() -> None:
    async with rest(start=False) as hub:
        body = having("spec.nproc", 3)
        status = await hub.refused("POST", "/jobs", json=body)
        assert status["code"] == 400 and 'unknown field "spec.nproc"' in status["message"]
        answer = await submit(hub, body, fieldValidation="Warn")
        assert answer.status_code == 201 and "spec.nproc" in answer.headers["warning"]


async def test_what_exists_already_or_has_no_namespace_is_refused_as_kubernetes_would() -> None:
    async with rest(start=False) as hub:
        assert (await submit(hub, pytorchjob("one"))).status_code == 201
        status = await hub.refused("POST", "/jobs", json=pytorchjob("one"))
        assert (status["code"], status["reason"]) == (409, "AlreadyExists")
        status = await hub.refused("POST", "/jobs", json=pytorchjob("one", namespace="nowhere"))
        assert status["code"] == 404 and "nowhere" in status["message"]


async def test_a_deleted_job_leaves_its_member_and_the_hub() -> None:
    async with rest(member("cfa"), objects=[*QUEUED, pytorchjob("one")]) as hub:
        await hub.world.running("one")
        path = f"{PREFIX}/jobs/default/PyTorchJob/one"
        dry = await hub.client().delete(path, params={"dryRun": "true"})
        assert (dry.status_code, (await hub.job("one"))["state"]) == (200, "Running")
        answer = await hub.client().delete(path)
        JobDetail.model_validate(answer.json())
        assert (answer.status_code, answer.json()["state"], answer.json()["member"]) == (200, "Deleted", "cfa")
        await eventually(hub.world.nothing_left)
        assert (await hub.refused("DELETE", "/jobs/default/PyTorchJob/one"))["code"] == 404
        assert (await hub.refused("GET", "/jobs/default/PyTorchJob/one"))["reason"] == "NotFound"


async def test_a_job_that_something_holds_is_shown_as_deleting() -> None:
    body = pytorchjob("one")
    body["metadata"]["finalizers"] = ["example.com/archive"]
    async with rest(start=False) as hub:
        assert (await submit(hub, body)).status_code == 201
        answer = await hub.client().delete(f"{PREFIX}/jobs/default/pytorchjobs/one")
        assert answer.json()["state"] == "Deleting"
        assert (await hub.job("one"))["state"] == "Deleting"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": "10001"}, "limit"),
        ({"continue": "nonsense"}, "continue"),
        ({"continue": "WyJhIl0"}, "continue"),
        ({"kind": "Pod"}, "kind"),
        ({"state": "Sleeping"}, "state.0"),
        ({"namespace": ""}, "namespace"),
        ({"sate": "Queued"}, "sate"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-01-01T00:00:00"}, "since"),
    ],
)
async def test_a_parameter_that_means_nothing_is_refused_by_name(params: dict[str, str], field: str) -> None:
    async with rest(start=False) as hub:
        status = await hub.refused("GET", "/jobs", params=params)
        assert status["code"] == 422 and status["reason"] == "Invalid"
        assert [cause["field"] for cause in status["details"]["causes"]] == [field], status


async def test_a_job_of_the_same_name_as_one_before_it_is_not_shown_with_that_ones_binding() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 1)
        await hub.world.delete("PyTorchJob", "job-00000")
        assert (await submit(hub, pytorchjob("job-00000"))).status_code == 201
        job = await hub.job("job-00000")
        assert (job["state"], job["position"], job["queue"]) == ("Unclaimed", None, None)


async def test_a_job_shows_the_rules_about_where_its_pods_stand() -> None:
    job = pytorchjob("one")
    job["metadata"]["annotations"] = {"fleet.io/slices": "rack=2@worker", "fleet.io/preferred-topology": "block"}
    async with rest(member("cfa"), objects=[*QUEUED, job]) as hub:
        await eventually(lambda: hub.world.binding("one") is not None)
        plain = {"of": [], "size": 0, "hard": True, "most": 0, "even": False}
        assert (await hub.job("one"))["rules"] == [
            {**plain, "level": "block", "hard": False},
            {**plain, "level": "rack", "of": ["worker"], "size": 2},
        ]
