"""Logs of the members' pods, by the pod and by the job."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from fleet.client import AsyncFleet
from fleet.relays.places import RelayLimits
from tests.api.conftest import KUBECTLS
from tests.api.wait import eventually, expect_line
from tests.cli.hub import fleet
from tests.relays.conftest import JOBS, LINES, PODS, TEAM, Node, World, opened

pytestmark = pytest.mark.xdist_group("relays")
ALL = "".join(f"{line}\n" for line in LINES)
OLDEST, OWN = next(iter(KUBECTLS.values())), list(KUBECTLS.values())[-1]


@pytest.mark.parametrize("kubectl", dict.fromkeys((OLDEST, OWN)))
async def test_kubectl_prints_the_log_of_a_pod(world: World, kubectl: str) -> None:
    await world.grant("bob", ("get", "pods"), ("get", "pods/log"))
    _, out, _ = await world.hub.kubectl(kubectl, "logs", "train-0", "-n", TEAM, "-c", "main", token="bob-token")
    assert out == ALL
    _, out, _ = await world.hub.kubectl(kubectl, "logs", "train-0.cfa", "-n", TEAM, "--tail=2", token="bob-token")
    assert out == "".join(f"{line}\n" for line in LINES[-2:])


async def test_a_followed_log_goes_on_until_its_client_goes(world: World) -> None:
    arguments = ["logs", "train-0", "-f", "-n", TEAM, "-c", "main"]
    process = world.hub.start_kubectl(OWN, arguments)
    try:
        await expect_line(process, LINES[-1])
        with world.node.log.open("a") as log:
            log.write("2026-01-01T00:00:01.000000000Z stdout F later\n")
        await expect_line(process, "later")
        assert len(world.relays.places) == 1
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)
        lines = world.node.log.read_text().splitlines(keepends=True)
        world.node.log.write_text("".join(lines[: len(LINES)]))
    await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "the relay is over")


async def test_python_follows_all_pods_of_a_job_and_goes_on_behind_the_last_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.client.following.MISSING_S", 0.2)
    seen: asyncio.Queue[tuple[str, int | None, str]] = asyncio.Queue()

    async def follow() -> None:
        async with AsyncFleet(kubeconfig=world.hub.kubeconfig()) as fleet:
            async for line in fleet.logs("job/train", namespace=TEAM, container="main", follow=True):
                seen.put_nowait((line.pod, line.rank, line.text))

    async def next_lines(count: int) -> list[tuple[str, int | None, str]]:
        async with asyncio.timeout(60):
            return sorted([await seen.get() for _ in range(count)])

    both = [("train-0", 0), ("train-1", 1)]
    following = asyncio.create_task(follow())
    try:
        assert await next_lines(2 * len(LINES)) == [(*pod, line) for pod in both for line in LINES]
        await world.edit_binding(clusters=[])  # the job leaves its member, and its relays end
        await eventually(lambda: len(world.relays.places) == 0, "the relays have ended")
        await world.edit_binding(clusters=[{"name": "cfa"}])
        with world.node.log.open("a") as log:
            log.write("2026-01-01T00:00:01.000000000Z stdout F later\n")
        assert await next_lines(2) == [(*pod, "later") for pod in both]
        assert seen.empty()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        lines = world.node.log.read_text().splitlines(keepends=True)
        world.node.log.write_text("".join(lines[: len(LINES)]))
    await eventually(lambda: len(world.relays.places) == 0, "the relays are over")


async def test_a_pod_is_shown_as_a_kube_apiserver_shows_one(world: World) -> None:
    async with world.hub.client() as client:
        shown = (await client.get(f"{PODS}/train-0")).json()
        assert (shown["kind"], shown["metadata"]["name"], shown["status"]["phase"]) == ("Pod", "train-0", "Running")
        assert not {"resourceVersion", "managedFields"} & set(shown["metadata"])
        named = (await client.get(f"{PODS}/train-0.cfa")).json()
        assert named["metadata"]["name"] == "train-0.cfa"
        assert (await client.get(PODS)).json()["items"] == []
        protobuf = await client.get(f"{PODS}/train-0", headers={"accept": "application/vnd.kubernetes.protobuf"})
        assert protobuf.content[:4] == b"k8s\0"
        assert (await client.delete(f"{PODS}/train-0")).status_code == 404
    _, out, _ = await world.hub.kubectl(OWN, "get", "pod", "train-0", "-n", TEAM)
    assert "Running" in out.splitlines()[1]


@pytest.mark.parametrize("pod", ["alone", "other-0", "nothing", "alone.cfa", "train-0.cfb", "../../secrets/x"])
async def test_other_pods_are_as_if_they_were_not_there(world: World, pod: str) -> None:
    step = pod.replace("/", "%2F")
    async with world.hub.client() as client:
        answers = [await client.get(f"{PODS}/{step}{rest}") for rest in ("", "/log")]
    assert [answer.status_code for answer in answers] == [404, 404]


async def test_labels_of_a_pod_prove_nothing(world: World) -> None:
    labels = world.node.member.get(f"{JOBS}/train")["metadata"]["labels"]
    await asyncio.to_thread(world.node.member.patch, f"{PODS}/alone", {"metadata": {"labels": labels}})
    async with world.hub.client() as client:
        answer = await client.get(f"{PODS}/alone/log")
    assert (answer.status_code, answer.json()["message"]) == (404, 'pods "alone" not found')


async def test_a_copy_of_another_binding_or_in_another_member_is_not_the_jobs(world: World) -> None:
    async with world.hub.client() as client:
        assert (await client.get(f"{PODS}/train-0/log")).status_code == 200
        await world.edit_binding(clusters=[])
        assert (await client.get(f"{PODS}/train-0/log")).status_code == 404
        await world.edit_binding(clusters=[{"name": "cfa"}])
        patch = {"metadata": {"labels": {"fleet.io/binding": "00000000-0000-0000-0000-000000000000"}}}
        await asyncio.to_thread(world.node.member.patch, f"{JOBS}/train", patch)
        assert (await client.get(f"{PODS}/train-0/log")).status_code == 404


async def test_rights_are_those_in_the_namespace_of_the_hub(world: World) -> None:
    await world.grant("bob", ("get", "pods"))
    async with world.hub.client("bob-token") as bob, world.hub.client("alice-token") as alice:
        assert (await bob.get(f"{PODS}/train-0")).status_code == 200
        refused = await bob.get(f"{PODS}/train-0/log")
        assert refused.status_code == 403 and 'cannot get resource "pods/log"' in refused.json()["message"]
        assert (await alice.get(f"{PODS}/train-0")).status_code == 403


async def test_a_name_in_several_members_is_to_be_said_with_one(tmp_path: Path, node: Node) -> None:
    async with opened(tmp_path, node, "cfa", "cfb") as world, world.hub.client() as client:
        both = await client.get(f"{PODS}/train-0/log")
        assert both.status_code == 409 and "train-0.cfa, train-0.cfb" in both.json()["message"]
        assert (await client.get(f"{PODS}/train-0.cfb/log")).text == ALL


async def test_the_log_of_a_job_is_that_of_its_first_pod_or_of_the_one_that_is_named(world: World) -> None:
    await world.grant("bob", ("get", "jobs/log"), group="batch")
    async with world.hub.client("bob-token") as client:
        for which in ({}, {"index": "1"}, {"role": "job", "index": "0"}, {"pod": "train-1"}, {"cluster": "cfa"}):
            answer = await client.get(f"{JOBS}/train/log", params={**which, "container": "main"})
            assert (answer.status_code, answer.text) == (200, ALL), which
        answer = await client.get(f"{JOBS}/train/log", params={"container": "main", "tailLines": "1", "x": "y"})
        assert answer.text == f"{LINES[-1]}\n"
        for which, code in (
            ({"index": "7"}, 400),
            ({"role": "none"}, 400),
            ({"index": "x"}, 400),
            ({"cluster": "cfb"}, 400),
            ({"pod": "other-0"}, 404),
            ({"pod": "alone"}, 404),
            ({"tailLines": "x"}, 400),
            ({"container": "no"}, 400),
        ):
            refused = await client.get(f"{JOBS}/train/log", params=which)
            assert refused.status_code == code, (which, refused.text)
        assert "train-0, train-1" in (await client.get(f"{JOBS}/train/log", params={"index": "7"})).json()["message"]
        assert (await client.get(f"{JOBS}/gone/log")).status_code == 404
        assert (await client.get(f"{PODS}/train-0/log")).status_code == 403


async def test_a_job_that_is_nowhere_says_so_and_other_kinds_have_no_log(world: World) -> None:
    await world.edit_binding(clusters=[])
    async with world.hub.client() as client:
        waiting = await client.get(f"{JOBS}/train/log")
        assert waiting.status_code == 400 and "is in no member" in waiting.json()["message"]
        await world.say_why_it_waits("held by a person")
        held = await client.get(f"{JOBS}/train/log")
        assert held.json()["message"] == 'Job "train" is in no member: held by a person'
        maps = await client.get(f"/api/v1/namespaces/{TEAM}/configmaps/x/log")
        assert maps.status_code == 404 and "could not find the requested resource" in maps.text


async def test_relays_are_bounded_by_user_and_in_all(tmp_path: Path, node: Node) -> None:
    limits = RelayLimits(relays=3, relays_by_user=2, look_s=0.2)
    async with opened(tmp_path, node, "cfa", limits=limits) as world, world.hub.client() as client:
        await world.grant("bob", ("get", "pods/log"))
        follow = {"follow": "1", "container": "main"}

        async def statuses(token: str, count: int) -> list[int]:
            async with world.hub.client(token) as other:
                return [(await other.get(f"{PODS}/train-0/log")).status_code for _ in range(count)]

        async with (
            client.stream("GET", f"{PODS}/train-0/log", params=follow) as first,
            client.stream("GET", f"{PODS}/train-0/log", params=follow) as second,
        ):
            assert (first.status_code, second.status_code) == (200, 200)
            assert await statuses("admin-token", 1) == [429]
            assert await statuses("bob-token", 2) == [200, 200]
            async with (
                world.hub.client("bob-token") as bob,
                bob.stream("GET", f"{PODS}/train-0/log", params=follow) as third,
            ):
                assert third.status_code == 200
                full = await bob.get(f"{PODS}/train-0/log")
                assert (full.status_code, full.headers["retry-after"]) == (429, "5")
        await eventually(lambda: len(world.relays.places) == 0, "all places are free")


async def test_a_log_ends_when_its_job_leaves_and_when_nothing_comes(tmp_path: Path, node: Node) -> None:
    follow = {"follow": "1", "container": "main"}
    async with opened(tmp_path, node, "cfa") as world, world.hub.client() as client:
        async with client.stream("GET", f"{PODS}/train-0/log", params=follow) as log:
            lines = log.aiter_lines()
            assert await anext(lines) == LINES[0]
            await world.edit_binding(clusters=[])
            assert [line async for line in lines] == LINES[1:]
        await world.edit_binding(clusters=[{"name": "cfa"}])
        world.relays._limits = RelayLimits(idle_s=0.5)
        async with client.stream("GET", f"{PODS}/train-0/log", params=follow) as log:
            assert [line async for line in log.aiter_lines()] == LINES


async def test_fleet_logs_prints_the_log_of_a_job(world: World) -> None:
    await world.grant("bob", ("get", "jobs"), ("list", "jobs"), ("get", "jobs/log"), group="batch")
    kubeconfig = f"--kubeconfig={world.hub.kubeconfig('bob-token')}"

    async def logs(*arguments: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(fleet, "logs", *arguments, "-n", TEAM, kubeconfig)

    done = await logs("train")
    assert (done.returncode, done.stdout) == (0, ALL)
    assert (await logs("job/train", "--index", "1", "--tail", "1", "--timestamps")).stdout.endswith(f"Z {LINES[-1]}\n")
    await world.grant("bob", ("get", "jobs/pods"), group="batch", name="bob-pods")
    merged = await logs("train", "--tail", "1")
    assert merged.stdout == f"[train-0] {LINES[-1]}\n[train-1] {LINES[-1]}\n"
    refused = await logs("train", "--role", "worker")
    assert (refused.returncode, refused.stdout) == (1, "") and "its pods train-0, train-1" in refused.stderr
    await world.ungrant("bob")
    refused = await logs("train")
    assert refused.returncode == 1 and "cannot list" in refused.stderr
