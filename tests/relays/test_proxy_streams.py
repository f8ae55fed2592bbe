"""exec, attach and port-forward through clusters/NAME/proxy: to every pod of a member, by the right to the proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fleet.relays.places import RelayLimits, places_of
from tests.api.proxy import PROXY
from tests.api.rbac import binding, cluster_role
from tests.api.wait import eventually, expect_line
from tests.relays.conftest import LINES, TEAM, World
from tests.relays.proxies import proxy_of
from tests.relays.streams import CLIENTS, OWN, Ended, forwards, heard, over_spdy, write_lines

pytestmark = pytest.mark.xdist_group("relays")
CFA = PROXY.replace("m1", "cfa")
PODS = f"{CFA}/api/v1/namespaces/{TEAM}/pods"


async def may(world: World, *verbs: str, user: str = "bob") -> None:
    """The right to clusters/proxy with these verbs, and no other."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": list(verbs)}
    async with world.hub.client() as admin:
        assert (await admin.post(f"{rbac}/clusterroles", json=cluster_role(user, [rule]))).status_code == 201
        bound = binding(user, "ClusterRoleBinding", user, "ClusterRole", user)
        assert (await admin.post(f"{rbac}/clusterrolebindings", json=bound)).status_code == 201


def there(world: World, *arguments: str) -> list[str]:
    return [f"--server={world.hub.server.url}{CFA}", f"--namespace={TEAM}", *arguments]


async def all_over(world: World) -> None:
    proxy = proxy_of(world.hub.app)
    requests = proxy.clients.pools.values
    await eventually(lambda: len(proxy.places) == 0 and not sum(pool.requests for pool in requests()), "all is over")


@CLIENTS
async def test_exec_reaches_a_pod_that_is_no_jobs(world: World, kubectl: str, env: dict[str, str]) -> None:
    await may(world, "get", "create")
    script = there(world, "exec", "-i", "alone", "--", "sh", "-c", "read a; echo got $a; echo oops >&2; exit 3")

    def whole(ended: Ended) -> bool:
        return ended[1] == "got said\n" and "oops" in ended[2] and "exit status 3" in ended[2]

    asked: dict[str, Any] = {"token": "bob-token", "env": env, "ok": False}
    await heard(lambda: world.hub.kubectl(kubectl, *script, stdin="said\n", **asked), whole)
    words = there(world, "exec", "alone", "--", "echo", "a b", "", "c&d=e")
    await heard(lambda: world.hub.kubectl(kubectl, *words, **asked), lambda ended: ended == (0, "a b  c&d=e\n", ""))
    await all_over(world)


@CLIENTS
async def test_port_forward_carries_ten_megabytes_each_way(world: World, kubectl: str, env: dict[str, str]) -> None:
    await may(world, "get", "create")
    arguments = there(world, "port-forward", "pod/alone", ":80")
    await forwards(world, world.hub.start_kubectl(kubectl, arguments, token="bob-token", env=env))
    await all_over(world)


async def test_attach_shows_what_the_pod_prints_next(world: World) -> None:
    process = world.hub.start_kubectl(OWN, there(world, "attach", "alone"))
    writing = asyncio.create_task(write_lines(world))
    try:
        await expect_line(process, "attached", 60.0)
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        process.kill()
        await asyncio.to_thread(process.communicate)
        lines = world.node.log.read_text().splitlines(keepends=True)
        world.node.log.write_text("".join(lines[: len(LINES)]))
    await all_over(world)


async def test_a_right_to_get_alone_opens_no_process(world: World) -> None:
    await may(world, "get", "list", "watch", "update", "patch", "delete")
    for arguments in (("exec", "alone", "--", "true"), ("attach", "alone"), ("port-forward", "alone", ":80")):
        code, _, err = await world.hub.kubectl(OWN, *there(world, *arguments), token="bob-token", ok=False)
        assert code == 1 and 'cannot create resource "clusters/proxy"' in err, (arguments, err)
    upgrade = over_spdy("v4.channel.k8s.io")
    async with world.hub.client("bob-token") as bob:
        assert (await bob.get(f"{PODS}/alone")).status_code == 200
        for word in ("exec", "ex%65c"):  # a member decodes the path, too
            for method, code in (("GET", 403), ("POST", 403), ("PUT", 403), ("HEAD", 403), ("DELETE", 403)):
                path = f"{PODS}/alone/{word}?command=true"
                assert (await bob.request(method, path, headers=upgrade)).status_code == code, (word, method)
    await all_over(world)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/team/pods/alone/exec/",
        "/api/v1/namespaces/team//pods/alone/exec",
        "/api/v1/namespaces/team/pods/alone/exec/x",
        "/api/v1/namespaces/team/pods/alone/log",
        "/api/v1/pods/alone/exec",
        "/api/v1/namespaces/team/services/a/proxy",
        "/api/v1/nodes/node-0/proxy/exec/team/alone/main",
        "/apis/batch/v1/namespaces/team/pods/alone/exec",
        "/api/v1/namespaces/team/pods",
        "/version",
        "/apis/cluster.karmada.io/v1alpha1/clusters/x/proxy/api/v1/namespaces/team/pods/alone/exec",
    ],
)
async def test_nothing_else_changes_its_protocol(world: World, path: str) -> None:
    websocket = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    async with world.hub.client() as client:
        for method, headers in (("POST", over_spdy("v4.channel.k8s.io")), ("GET", list(websocket.items()))):
            answer = await client.request(method, f"{CFA}{path}", params={"command": "true"}, headers=headers)
            assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), answer.text
            assert "changes to another protocol for /api/v1/namespaces/" in answer.text
    await all_over(world)


async def test_a_path_that_leads_out_opens_nothing(world: World) -> None:
    async with world.hub.client() as client:
        for pod in ("%2e%2e", "a%2f..%2falone", "..%5calone"):
            request = client.build_request("POST", "/", headers=over_spdy("v4.channel.k8s.io"))
            request.extensions["target"] = f"{PODS}/{pod}/exec?command=true".encode()
            answer = await client.send(request)
            assert answer.status_code == 400, answer.text
    await all_over(world)


async def test_a_member_says_what_it_does_not_have(world: World) -> None:
    async with world.hub.client() as client:
        for pod, query, code, words in (
            ("nothing", {"command": "true"}, 404, 'pods "nothing" not found'),
            ("alone", {"command": "true", "container": "no"}, 400, "container no"),
        ):
            answer = await client.post(f"{PODS}/{pod}/exec", params=query, headers=over_spdy("v4.channel.k8s.io"))
            assert answer.status_code == code and words in answer.json()["message"], answer.text
    await all_over(world)


async def test_each_user_has_a_number_of_connections(world: World) -> None:
    proxy_of(world.hub.app).places = places_of(RelayLimits(relays_by_user=1))
    process = world.hub.start_kubectl(OWN, there(world, "exec", "alone", "--", "sh", "-c", "echo begun; sleep 600"))
    try:
        await expect_line(process, "begun")
        async with world.hub.client() as client:
            upgrade = over_spdy("v4.channel.k8s.io")
            answer = await client.post(f"{PODS}/alone/exec", params={"command": "true"}, headers=upgrade)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)
    await all_over(world)


async def _right(world: World) -> None:
    async with world.hub.client() as admin:
        bound = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/bob"
        assert (await admin.delete(bound)).status_code == 200


async def _member(world: World) -> None:
    await world.say_of_member("False", "ClusterNotReachable")


async def _hub(world: World) -> None:
    world.hub.app.close_streams()


@pytest.mark.parametrize("end", [_right, _member, _hub], ids=["right", "member", "hub"])
async def test_a_connection_ends(world: World, end: Callable[[World], Awaitable[None]]) -> None:
    await may(world, "get", "create")
    world.hub.app._rechecks._every_s = 0.2
    proxy_of(world.hub.app)._limits = RelayLimits(look_s=0.2)
    arguments = there(world, "exec", "alone", "--", "sh", "-c", "echo begun; sleep 600")
    process = world.hub.start_kubectl(OWN, arguments, token="bob-token")
    try:
        await expect_line(process, "begun")
        await end(world)
        await asyncio.to_thread(process.communicate, timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0
    await all_over(world)
