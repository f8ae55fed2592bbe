"""`fleet join` looks before it stores: whatever is wrong is one line, and nothing of it is kept."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from fleet.amc.client import Client
from fleet.amc.get import CLUSTERS
from fleet.cli.joining import SECRETS
from fleet.values.kubeconfig.files import load
from tests.cli.hub import BIN, Up, fleet, refusal, until

SERVER = ("clusters", 0, "cluster", "server")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a member that nobody has joined yet."""
    folder = tmp_path_factory.mktemp("sim")
    sim = subprocess.Popen([str(BIN / "fleet"), "sim", "--members", "1", "--data-dir", str(folder)])
    try:
        path = folder / "members" / "cfa.kubeconfig"
        until("the member serves", path.exists)
        yield path
    finally:
        sim.terminate()
        sim.wait(20)


ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def changed(kubeconfig: Path, folder: Path, *path: str | int, to: object) -> Path:
    """A copy with one field changed."""
    document = yaml.safe_load(kubeconfig.read_text())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    copy = folder / "kubeconfig"
    copy.write_text(yaml.safe_dump(document))
    return copy


def join(up: Up, name: str, kubeconfig: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return fleet("join", name, "--kubeconfig", str(kubeconfig), "--data-dir", str(up.folder), *more)


@contextmanager
def server(**answers: str) -> Iterator[str]:
    """The URL of an API server that answers by the last word of the path, else as its `other`."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            word = self.path.partition("?")[0].rpartition("/")[2]
            body = answers.get(word.replace("-", "_"), answers["other"]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answering) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


def stored(up: Up) -> list[str]:
    return [item["metadata"]["name"] for path in (CLUSTERS, SECRETS) for item in up.hub.list(path)]


def test_a_simulated_member_is_reached_over_tls_and_with_its_token_alone(kubeconfig: Path) -> None:
    access = load([kubeconfig])
    assert access.server.startswith("https://") and access.ca and not access.insecure
    assert Client(access).get("/api/v1/nodes").status == 200
    assert Client(replace(access, token="")).get("/api/v1/nodes").status in (401, 403)
    assert {path.stat().st_mode & 0o777 for path in kubeconfig.parent.iterdir()} == {0o600}


def test_what_is_wrong_is_one_line_and_nothing_is_stored(up: Up, kubeconfig: Path, tmp_path: Path) -> None:
    assert refusal(join(up, "m", changed(kubeconfig, tmp_path, *SERVER, to="http://127.0.0.1:1"))) == (
        "fleet: cannot join m: no answer from http://127.0.0.1:1: connection refused"
    )
    assert "does not accept the credentials of user admin" in refusal(
        join(up, "m", changed(kubeconfig, tmp_path, "users", 0, "user", "token", to="wrong"))
    )
    assert 'context "nope" does not exist' in refusal(join(up, "m", kubeconfig, "--context", "nope"))
    assert "No such file" in refusal(join(up, "m", tmp_path / "missing"))
    assert "gets its credentials from a program" in refusal(
        join(up, "m", changed(kubeconfig, tmp_path, "users", 0, "user", to={"exec": {"command": "x"}}))
    )
    (tmp_path / "text").write_text("a: [")
    assert "is not YAML" in refusal(join(up, "m", tmp_path / "text"))
    assert "is no name for a member" in refusal(join(up, "No_Name", kubeconfig))
    assert "not KEY=VALUE" in refusal(join(up, "m", kubeconfig, "--label", "x"))
    assert stored(up) == []


def test_fleet_sim_says_when_its_members_are_ready_and_where_their_kubeconfigs_are(kubeconfig: Path) -> None:
    log = kubeconfig.parent.parent / "logs" / "sim.log"
    said = f"simulated members are ready: cfa; their kubeconfigs are in {kubeconfig.parent}"
    until("it says so", lambda: said in log.read_text())


def test_joining_twice_changes_the_member_and_a_second_name_is_refused(up: Up, kubeconfig: Path) -> None:
    first = join(up, "one", kubeconfig, "--label", "tier=gold", "--region", "north")
    assert (first.returncode, first.stdout, first.stderr) == (0, "one joined\n", "")
    assert join(up, "one", kubeconfig, "--label", "tier=silver").returncode == 0
    cluster = up.hub.find(f"{CLUSTERS}/one")
    assert cluster is not None
    assert cluster["metadata"]["labels"] == {"tier": "silver"} and cluster["spec"]["region"] == "north"
    assert refusal(join(up, "two", kubeconfig)) == "fleet: this cluster is joined already, as one"
    assert "this is the hub itself" in refusal(join(up, "hub", up.folder / "kubeconfig"))
    assert stored(up) == ["one", "member-one"]

    listed = fleet("clusters", "-o", "wide", "--data-dir", str(up.folder)).stdout.splitlines()
    assert listed[0].split()[:4] == ["NAME", "STATE", "MODE", "VERSION"]
    assert listed[1].split()[:5] == ["one", "ready", "Push", "v1.36.3", "4/4"]

    left = fleet("unjoin", "one", "--data-dir", str(up.folder))
    assert (left.returncode, left.stdout) == (0, "one has left\n")
    assert stored(up) == []
    assert 'no member "one"' in refusal(fleet("unjoin", "one", "--data-dir", str(up.folder)))


def test_a_refused_change_of_a_member_leaves_its_credentials_and_marks_as_they_were(
    up: Up, kubeconfig: Path, tmp_path: Path
) -> None:
    assert join(up, "one", kubeconfig).returncode == 0
    before = up.hub.find(f"{SECRETS}/member-one")
    guard = {
        "apiVersion": ADMISSION.removeprefix("/apis/"),
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "frozen"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["cluster.karmada.io"],
                        "apiVersions": ["*"],
                        "resources": ["clusters"],
                        "operations": ["UPDATE", "DELETE"],
                    }
                ]
            },
            "matchConditions": [
                {"name": "people", "expression": "!request.userInfo.username.startsWith('system:fleet')"},
            ],
            "validations": [{"expression": "request.operation == 'UPDATE' && !has(object.spec.region)"}],
        },
    }
    bound = {"policyName": "frozen", "validationActions": ["Deny"]}
    binding = {**guard, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound}
    up.hub.put_object(f"{ADMISSION}/validatingadmissionpolicies", guard)
    up.hub.put_object(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    try:
        url = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        other = changed(kubeconfig, tmp_path, *SERVER, to=url.replace("127.0.0.1", "localhost"))
        assert "denied" in refusal(join(up, "one", other, "--region", "north"))
        assert up.hub.find(f"{SECRETS}/member-one") == before
        assert "denied" in refusal(fleet("unjoin", "one", "--force", "--data-dir", str(up.folder)))
        annotations = (up.hub.find(f"{CLUSTERS}/one") or {})["metadata"].get("annotations") or {}
        assert "fleet.io/force-removal" not in annotations
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            up.hub.request("DELETE", f"{ADMISSION}/{kind}/frozen")
    assert fleet("unjoin", "one", "--data-dir", str(up.folder)).returncode == 0


def test_a_server_that_is_no_kubernetes_api_is_refused_in_one_line(up: Up, kubeconfig: Path, tmp_path: Path) -> None:
    with server(other="<html>Welcome</html>") as url:
        page = changed(kubeconfig, tmp_path, *SERVER, to=url)
        assert refusal(join(up, "m", page)).endswith(
            "shows no uid of its namespace kube-system, which tells clusters apart"
        )
    assert stored(up) == []


def test_room_is_held_in_a_member_that_is_joined_so_and_no_more_once_it_is_joined_without(
    up: Up, kubeconfig: Path
) -> None:
    def holds() -> tuple[object, object]:
        cluster = up.hub.find(f"{CLUSTERS}/one") or {}
        told = [c for c in cluster["status"]["conditions"] if c["type"] == "ReservationEnabled"]
        return cluster["spec"].get("enableReservation"), told[0]["status"] if told else None

    assert join(up, "one", kubeconfig, "--enable-reservation").returncode == 0
    until("the hub says so", lambda: holds() == (True, "True"))
    assert join(up, "one", kubeconfig).returncode == 0
    assert holds() == (True, "True")
    assert join(up, "one", kubeconfig, "--no-enable-reservation").returncode == 0
    until("the hub says nothing of it", lambda: holds() == (False, None))
    assert fleet("unjoin", "one", "--data-dir", str(up.folder)).returncode == 0
    assert stored(up) == []


def test_room_is_not_held_in_members_that_are_too_old(up: Up, kubeconfig: Path, tmp_path: Path) -> None:
    space, version = {"metadata": {"uid": "u-1"}}, {"gitVersion": "v1.27.9"}
    with server(other="{}", kube_system=json.dumps(space), version=json.dumps(version)) as url:
        old = changed(kubeconfig, tmp_path, *SERVER, to=url)
        assert refusal(join(up, "m", old, "--enable-reservation")) == (
            "fleet: cannot join m with --enable-reservation: it runs Kubernetes v1.27.9; room is held from v1.28 on"
        )
        assert stored(up) == []
        late = join(up, "m", old, "--timeout", "0")
        assert late.returncode == 124
        assert "m is joined, but not ready after 0 s" in late.stderr and "--enable-reservation" not in late.stderr
        assert stored(up) == ["m", "member-m"]
        until("its version is known", lambda: "v1.27.9" in str(up.hub.find(f"{CLUSTERS}/m")))
