"""Unmodified kubectl of every version does its daily work, on built-in and on custom kinds."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.api.conftest import KUBECTL, KUBECTLS, Hub
from tests.api.manifests import CONFIG_MAP, JOB, OBJECTS
from tests.api.wait import expect_line
from tests.slow import repeated


@pytest.fixture(params=repeated(KUBECTLS, short=(min(KUBECTLS), max(KUBECTLS))))
def kubectl(request: pytest.FixtureRequest) -> str:
    return KUBECTLS[request.param]


async def test_every_kubectl_lists_every_kind(hub: Hub, kubectl: str) -> None:
    listed = [kind for kind in hub.registry if "list" in kind.verbs]
    names = ",".join(f"{kind.resource}.{kind.version}.{kind.group}" if kind.group else kind.resource for kind in listed)
    await hub.kubectl(kubectl, "get", names, "-A", "-o", "wide")
    _, out, _ = await hub.kubectl(kubectl, "api-resources", "-o", "name")
    assert {kind.group_resource for kind in listed} <= set(out.split())


@pytest.mark.parametrize("version", [min(KUBECTLS), max(KUBECTLS)])
async def test_the_oldest_and_the_newest_kubectl_show_every_kind_in_every_form(hub: Hub, version: str) -> None:
    names = ",".join(kind.group_resource for kind in hub.registry if "list" in kind.verbs)
    _, out, _ = await hub.kubectl(KUBECTLS[version], "get", names, "-A", "-o", "name")
    assert "namespace/default" in out.split()
    assert "kind: Namespace" in (await hub.kubectl(KUBECTLS[version], "get", names, "-A", "-o", "yaml"))[1]
    assert "default" in (await hub.kubectl(KUBECTLS[version], "describe", names, "-A"))[1]


async def test_kubectl_explains_a_kind_of_every_group(hub: Hub) -> None:
    for kind in {kind.api_version: kind for kind in hub.registry}.values():
        _, out, _ = await hub.kubectl(KUBECTL, "explain", kind.resource, f"--api-version={kind.api_version}")
        assert kind.kind in out


@pytest.mark.parametrize("kind", OBJECTS)
async def test_every_kubectl_applies_changes_and_deletes(hub: Hub, kubectl: str, kind: str) -> None:
    body = OBJECTS[kind]
    name = body["metadata"]["name"]
    text = yaml.safe_dump(body)
    run = hub.kubectl
    assert "created" in (await run(kubectl, "apply", "-f", "-", stdin=text))[1]
    assert "unchanged" in (await run(kubectl, "apply", "-f", "-", stdin=text))[1]
    await run(kubectl, "label", kind, name, "tier=gold")
    await run(kubectl, "annotate", kind, name, "note=hello")
    changed = {**body, "metadata": {**body["metadata"], "annotations": {"team": "blue"}}}
    assert "configured" in (await run(kubectl, "apply", "-f", "-", stdin=yaml.safe_dump(changed)))[1]
    _, out, _ = await run(
        kubectl, "get", kind, name, "-o", "jsonpath={.metadata.labels.tier}/{.metadata.annotations.team}"
    )
    assert out == "gold/blue"
    applied = await run(kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    assert "serverside-applied" in applied[1]
    await run(kubectl, "patch", kind, name, "--type=merge", "-p", '{"metadata":{"labels":{"m":"1"}}}')
    await run(
        kubectl, "patch", kind, name, "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/j","value":"1"}]'
    )
    status, _, err = await run(
        kubectl, "patch", kind, name, "--type=strategic", "-p", '{"metadata":{"labels":{"s":"1"}}}', ok=False
    )
    labels = json.loads((await run(kubectl, "get", kind, name, "-o", "json"))[1])["metadata"]["labels"]
    assert (labels["m"], labels["j"]) == ("1", "1")
    if kind == "configmap":
        assert (status, labels.get("s")) == (0, "1")
    else:
        assert status == 1 and ("not supported" in err or "unknown format" in err), err
    await run(kubectl, "edit", kind, name, env={"KUBE_EDITOR": "sed -i s/gold/silver/"})
    assert (await run(kubectl, "get", kind, "-l", "tier=silver", "-o", "name"))[1].strip().endswith(f"/{name}")
    assert "deleted" in (await run(kubectl, "delete", kind, name))[1]
    assert (await run(kubectl, "get", kind, name, ok=False))[0] == 1


async def test_every_kubectl_reads_what_there_is(hub: Hub, kubectl: str) -> None:
    run = hub.kubectl
    await run(kubectl, "create", "-f", "-", stdin=yaml.safe_dump_all([CONFIG_MAP, JOB]))
    _, out, _ = await run(kubectl, "get", "pytorchjob")
    assert out.split("\n")[0].split() == ["NAME", "STATE", "AGE"] and out.split("\n")[1].startswith("train")
    assert "settings" in (await run(kubectl, "get", "cm", "-A", "-o", "wide"))[1]
    _, out, _ = await run(kubectl, "get", "cm", "--field-selector=metadata.name=settings", "-o", "yaml")
    assert yaml.safe_load(out)["items"][0]["data"] == {"a": "1"}
    assert "Kind:" in (await run(kubectl, "describe", "pytorchjob", "train"))[1]
    assert "replica types" in (await run(kubectl, "explain", "pytorchjob.spec"))[1]
    assert "KIND:" in (await run(kubectl, "explain", "pod.spec.containers"))[1]
    assert "No events found" in (await run(kubectl, "events"))[2]
    assert "propagationpolicies" in (await run(kubectl, "api-resources"))[1]
    assert "kubeflow.org/v1" in (await run(kubectl, "api-versions"))[1]
    _, out, _ = await run(kubectl, "wait", "--for=jsonpath={.data.a}=1", "cm/settings", "--timeout=5s")
    assert "condition met" in out


async def test_every_kubectl_creates_by_its_generators(hub: Hub, kubectl: str) -> None:
    run = hub.kubectl
    for arguments in (
        "ns other",
        "configmap c --from-literal=a=b",
        "secret generic s --from-literal=a=b",
        "priorityclass p --value=10 --description=x",
        "role r --verb=get,list --resource=pods",
        "rolebinding r --role=r --serviceaccount=default:robot",
        "clusterrole r --verb=get --resource=pods --resource-name=a",
        "clusterrolebinding r --clusterrole=r --group=dev",
        "sa robot",
        "job j --image=busybox -- sleep 1",
        "quota q --hard=cpu=1,pods=2",
    ):
        assert "created" in (await run(kubectl, "create", *arguments.split()))[1]
    token = (await run(kubectl, "create", "token", "robot"))[1].strip()
    assert token.count(".") == 2
    assert (await run(kubectl, "auth", "can-i", "list", "pods", token=token))[1].strip() == "yes"
    assert (await run(kubectl, "auth", "can-i", "list", "secrets", token=token, ok=False))[1].strip() == "no"
    assert "pods" in (await run(kubectl, "auth", "can-i", "--list", token=token))[1]
    if "1.27" not in kubectl:
        assert "system:serviceaccount:default:robot" in (await run(kubectl, "auth", "whoami", token=token))[1]
    job = json.loads((await run(kubectl, "get", "job", "j", "-o", "json"))[1])
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"]) == ("busybox", ["sleep", "1"])
    role = json.loads((await run(kubectl, "get", "clusterrole", "r", "-o", "json"))[1])
    assert role["rules"] == [{"apiGroups": [""], "resourceNames": ["a"], "resources": ["pods"], "verbs": ["get"]}]
    priority = json.loads((await run(kubectl, "get", "pc", "p", "-o", "json"))[1])
    assert (priority["value"], priority["description"]) == (10, "x")
    secret = json.loads((await run(kubectl, "get", "secret", "s", "-o", "json"))[1])
    assert secret["data"] == {"a": "Yg=="}


async def test_every_kubectl_follows_changes(hub: Hub, kubectl: str) -> None:
    await hub.kubectl(kubectl, "create", "-f", "-", stdin=yaml.safe_dump(CONFIG_MAP))
    process = hub.start_kubectl(kubectl, ["get", "cm", "-w", "--output-watch-events"])
    try:
        assert "settings" in await expect_line(process, "ADDED")
        await hub.kubectl(kubectl, "patch", "cm", "settings", "-p", '{"data":{"b":"2"}}')
        assert "settings" in await expect_line(process, "MODIFIED")
        await hub.kubectl(kubectl, "delete", "cm", "settings")
        assert "settings" in await expect_line(process, "DELETED")
    finally:
        process.kill()
        process.communicate()
