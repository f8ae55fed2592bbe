"""exec, attach and port-forward to pods of members, by real kubectls over WebSocket and SPDY."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import socket
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.wait import eventually, expect_line
from tests.cli.hub import BIN, fleet
from tests.relays.conftest import LINES, PODS, TEAM, Node, World, opened
from tests.relays.streams import BYTES, CLIENTS, OWN, Ended, both_ways, digests, forwards, heard, over_spdy, write_lines

pytestmark = pytest.mark.xdist_group("relays")
BATCH = (("get", "jobs"), ("list", "jobs"), ("get", "jobs/pods"))


@CLIENTS
async def test_exec_has_stdin_output_and_its_end(world: World, kubectl: str, env: dict[str, str]) -> None:
    """As without the hub; kwok tells a client of an exit status in words alone, and never of the end of stdin."""
    await world.grant("bob", ("get", "pods"), ("create", "pods/exec"))
    script = "read a; echo got $a; echo oops >&2; exit 3"
    arguments = ("exec", "-i", "train-0", "-n", TEAM, "--", "sh", "-c", script)
    asked: dict[str, Any] = {"token": "bob-token", "env": env, "ok": False}

    def whole(ended: Ended) -> bool:
        return ended[1] == "got said\n" and "oops" in ended[2] and "exit status 3" in ended[2]

    ended = await heard(lambda: world.hub.kubectl(kubectl, *arguments, stdin="said\n", **asked), whole)
    there = [f"--kubeconfig={world.node.member.kubeconfig}", *arguments]

    async def directly() -> Ended:
        direct = await asyncio.create_subprocess_exec(
            kubectl, *there, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={**os.environ, **env}
        )
        out, err = await asyncio.wait_for(direct.communicate(b"said\n"), 60)
        return direct.returncode, out.decode(), err.decode()

    assert ended == await heard(directly, whole)
    words = ("exec", "train-0.cfa", "-n", TEAM, "--", "echo", "a b", "", "c&d=e")
    await heard(lambda: world.hub.kubectl(kubectl, *words, **asked), lambda ended: ended == (0, "a b  c&d=e\n", ""))
    await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "all relays are over")


@CLIENTS
async def test_large_output_comes_whole(world: World, kubectl: str, env: dict[str, str]) -> None:
    command = f"head -c {BYTES} /dev/zero | tr '\\0' x"
    arguments = ("exec", "train-0", "-n", TEAM, "--", "sh", "-c", command)
    whole = "x" * BYTES
    await heard(lambda: world.hub.kubectl(kubectl, *arguments, env=env), lambda ended: ended[1] == whole)


async def test_a_terminal_is_one(world: World) -> None:
    """kwok loses what a process prints to a terminal right before its end, so this one has none."""
    ours, theirs = pty.openpty()
    arguments = ["exec", "-it", "train-0", "-n", TEAM, "--", "sh", "-c", "for i in $(seq 300); do tty; sleep 0.2; done"]
    command = [OWN, f"--kubeconfig={world.hub.kubeconfig()}", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.set_blocking(ours, False)
    shown = bytearray()

    def has(text: bytes) -> bool:
        with contextlib.suppress(OSError):  # nothing to read now
            shown.extend(os.read(ours, 4096))
        return text in shown

    try:
        await eventually(lambda: has(b"/dev/"), "the pod has a terminal", 60.0)
    finally:
        process.kill()
        await process.wait()
        os.close(ours)
    await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "the relay is over")


@CLIENTS
async def test_attach_shows_what_the_pod_prints_next(world: World, kubectl: str, env: dict[str, str]) -> None:
    await world.grant("bob", ("get", "pods"), ("create", "pods/attach"))
    process = world.hub.start_kubectl(kubectl, ["attach", "train-0", "-n", TEAM], token="bob-token", env=env)
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
    await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "the relay is over")


@CLIENTS
async def test_port_forward_carries_ten_megabytes_each_way(world: World, kubectl: str, env: dict[str, str]) -> None:
    await world.grant("bob", ("get", "pods"), ("create", "pods/portforward"))
    arguments = ["port-forward", "pod/train-0", ":80", "-n", TEAM]
    await forwards(world, world.hub.start_kubectl(kubectl, arguments, token="bob-token", env=env))
    await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "the relay is over")


async def test_a_right_to_get_alone_opens_no_process(world: World) -> None:
    await world.grant("bob", ("get", "*"), ("list", "*"), ("watch", "*"))
    for arguments in (("exec", "train-0", "--", "true"), ("attach", "train-0"), ("port-forward", "train-0", ":80")):
        code, _, err = await world.hub.kubectl(OWN, f"--namespace={TEAM}", *arguments, token="bob-token", ok=False)
        assert code == 1 and "cannot create resource" in err, (arguments, err)


@pytest.mark.parametrize("pod", ["alone", "other-0", "nothing"])
async def test_pods_that_are_not_the_hubs_are_not_there(world: World, pod: str) -> None:
    async with world.hub.client() as client:
        answer = await client.post(
            f"{PODS}/{pod}/exec", params={"command": "true", "stdout": "1"}, headers=over_spdy("v4.channel.k8s.io")
        )
    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")
    assert len(world.relays.places) == 0


async def test_other_requests_open_nothing(world: World) -> None:
    socket = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    cases: list[tuple[str, Any, int]] = [
        ("plain", {}, 400),
        ("another protocol", {"connection": "Upgrade", "upgrade": "h2c"}, 400),
        ("no key", {**socket, "sec-websocket-key": "x"}, 400),
        ("unknown subprotocol", {**socket, "sec-websocket-protocol": "v9.channel.k8s.io"}, 403),
        ("unknown stream protocol", over_spdy("v9.channel.k8s.io"), 403),
    ]
    async with world.hub.client() as client:
        for what, headers, code in cases:
            answer = await client.get(f"{PODS}/train-0/exec", params={"command": "true"}, headers=headers)
            assert answer.status_code == code, (what, answer.text)
        answer = await client.put(f"{PODS}/train-0/exec", headers=over_spdy("v4.channel.k8s.io"))
        assert answer.status_code == 405
        said = await client.post(
            f"{PODS}/train-0/portforward", params={"ports": "x"}, headers=over_spdy("portforward.k8s.io")
        )
        assert said.status_code == 400 and "no whole number" in said.text
        gone = await client.post(
            f"{PODS}/train-0/exec",
            params={"command": "true", "container": "no"},
            headers=over_spdy("v4.channel.k8s.io"),
        )
        assert gone.status_code == 400 and "container no" in gone.json()["message"]
    assert len(world.relays.places) == 0 and world.pool_requests() == 0


async def test_a_relay_ends_with_the_right(world: World) -> None:
    await world.grant("bob", ("get", "pods"), ("create", "pods/exec"))
    world.hub.app._rechecks._every_s = 0.2
    arguments = ["exec", "train-0", "-n", TEAM, "--", "sh", "-c", "echo begun; sleep 600"]
    process = world.hub.start_kubectl(OWN, arguments, token="bob-token")
    try:
        await expect_line(process, "begun")
        await world.ungrant("bob")
        await asyncio.to_thread(process.communicate, timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0
    await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "the relay is over")


async def test_a_relay_ends_with_its_job_with_its_member_and_with_the_hub(world: World) -> None:
    for end in ("job", "member", "hub"):
        arguments = ["exec", "train-0", "-n", TEAM, "--", "sh", "-c", "echo begun; sleep 600"]
        process = world.hub.start_kubectl(OWN, arguments)
        try:
            await expect_line(process, "begun")
            if end == "job":
                await world.edit_binding(clusters=[])
            elif end == "member":
                await world.say_of_member("False", "ClusterNotReachable")
            else:
                world.hub.app.close_streams()
            await asyncio.to_thread(process.communicate, timeout=60)
        finally:
            process.kill()
        assert process.returncode != 0, end
        await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "the relay is over")
        await world.edit_binding(clusters=[{"name": "cfa"}])
        if end == "member":
            async with world.hub.client() as client:
                refused = await client.get(f"{PODS}/train-0/log")
            assert refused.status_code == 503 and "cfa does not answer" in refused.text
            await world.say_of_member("True", "ClusterReady")


async def test_a_member_behind_its_agent_has_relays_too(tmp_path: Path, node: Node) -> None:
    url = httpx.URL(node.member.url)
    dialled = 0

    async def dial(name: str) -> socket.socket:
        nonlocal dialled
        dialled += 1
        made = socket.create_connection((url.host, url.port or 443))
        made.setblocking(False)
        return made

    async with opened(tmp_path, node, "cfa", dial=dial) as world:
        command = f"head -c {BYTES} /dev/zero | tr '\\0' x"
        arguments = ("exec", "train-0", "-n", TEAM, "--", "sh", "-c", command)
        await heard(lambda: world.hub.kubectl(OWN, *arguments), lambda ended: len(ended[1]) == BYTES)
        assert dialled
        await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "the relay is over")


async def test_fleet_runs_commands_and_forwards_ports_there_too(world: World) -> None:
    """kwok tells of an exit status in words alone, so a command that fails has status 1 and its words."""
    await world.grant("bob", ("create", "pods/exec"), ("create", "pods/portforward"))
    await world.grant("bob", *BATCH, group="batch", name="bob-jobs")
    where = ("-n", TEAM, f"--kubeconfig={world.hub.kubeconfig('bob-token')}")

    async def run(*words: str) -> Ended:
        done = await asyncio.to_thread(fleet, "exec", "train", *where, "--rank", "1", "--", *words)
        lines = done.stderr.splitlines(keepends=True)
        return done.returncode, done.stdout, "".join(line for line in lines if "nobody decides" not in line)

    await heard(lambda: run("echo", "a b", "", "c&d=e"), lambda ended: ended == (0, "a b  c&d=e\n", ""))

    def failed(ended: Ended) -> bool:
        return ended[:2] == (1, "said\n") and "exit status 3" in ended[2]

    await heard(lambda: run("sh", "-c", "echo said; exit 3"), failed)
    server = await asyncio.start_server(digests, "127.0.0.1", world.node.port)
    command = [str(BIN / "fleet"), "port-forward", "train", ":80", *where]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        port = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert port is not None, line
        await both_ways(int(port[1]))
    finally:
        process.kill()
        await process.wait()
        server.close()
        await server.wait_closed()
    await eventually(lambda: len(world.relays.places) == 0 and world.pool_requests() == 0, "the relay is over")
