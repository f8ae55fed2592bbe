"""`fleet run`: its words as a job, and the job on a real hub with a simulated member."""

from __future__ import annotations

import signal
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from fleet.cli.main import app
from fleet.cli.run_options import filled
from tests.cli.hub import BIN, Up, fleet, until
from tests.cli.manifests import QUOTA, policy, written

JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
MAPS = "/api/v1/namespaces/default/configmaps"
MEMBER = "/apis/cluster.karmada.io/v1alpha1/clusters/cfa/proxy"
SHORT = ("--annotation", "testbed/run-for=1s")  # how long pods of the simulated member run


def template(text: str, **metadata: Any) -> dict[str, Any]:
    metadata = {"name": "pytorch", "labels": {"fleet.io/template": "true"}, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"job.yaml": text}}


BASE = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec: {tolerations: [{key: gpu, operator: Exists}], containers: [{name: pytorch, image: base}]}
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("run")
    running = Up(folder / "hub", "--members", "1", "--nodes", "2")
    try:
        about = {"annotations": {"kubernetes.io/description": "our image, on tainted nodes"}}
        path = written(
            folder / "a.yaml",
            QUOTA,
            policy(),
            template(BASE, **about),
            template("kind: RayJob", name="ray"),
            {**template("a: b: c", name="broken")},
        )
        assert fleet("submit", path, "--data-dir", str(running.folder)).returncode == 0
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def run(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    return fleet("run", "--data-dir", str(up.folder), *words)


def printed(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["run", "--dry-run", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return list(yaml.safe_load_all(done.stdout))


# -- the words


def test_a_sweep_is_the_same_job_with_other_values_and_one_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    asked = ("--sweep", "lr=0.1,0.01", "--at-most", "1", "--after", "prepare", "--code", str(tmp_path))
    code, one, two = printed("--name", "t", "--image", "i", *asked, "--", "python", "train.py", "{lr}")
    assert code["kind"] == "ConfigMap"
    assert [job["metadata"]["name"] for job in (one, two)] == ["t-1", "t-2"]
    assert (
        two["metadata"]["annotations"] | {"fleet.io/after": "prepare", "fleet.io/at-most": "1"}
        == (two["metadata"]["annotations"])
    )
    (container,) = two["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "train.py", "0.01"]
    assert {"name": "FLEET_SWEEP_LR", "value": "0.01"} in container["env"]


def test_an_option_may_stand_without_its_value() -> None:
    words = ["--dry-run", "--code", "--template", "--name", "a", "--", "--code", "--dry-run"]
    assert filled(words) == ["--dry-run=client", "--code=.", "--template=", "--name", "a", "--", "--code", "--dry-run"]
    assert filled(["--dry-run", "server", "--code", "src", "--template"]) == [
        "--dry-run",
        "server",
        "--code",
        "src",
        "--template=",
    ]
    assert filled(["--dry-run", "python", "a.py"]) == ["--dry-run=client", "python", "a.py"]


def test_the_words_become_a_job() -> None:
    [job] = printed(
        "--gpus",
        "8",
        "--workers",
        "4",
        "--image",
        "i",
        "--mount",
        "data:/data:ro",
        "--env",
        "LR=a=b",
        "--time",
        "12h",
        "--queue",
        "root/vision",
        "--label",
        "sweep=lr",
        "--resource",
        "rdma/hca=1",
        "--kind",
        "pytorchjob",
        "-n",
        "team",
        "--",
        "torchrun",
        "train.py",
        "--lr",
        "0.1",
    )
    labels = {"sweep": "lr", "quota.scheduling.alibabacloud.com/name": "vision"}
    assert (job["kind"], job["metadata"]["namespace"], job["metadata"]["labels"]) == ("PyTorchJob", "team", labels)
    assert job["metadata"]["name"].startswith("train-") and job["spec"]["runPolicy"]["activeDeadlineSeconds"] == 43200
    specs = job["spec"]["pytorchReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in specs.items()} == {"Master": 1, "Worker": 3}
    [container] = specs["Worker"]["template"]["spec"]["containers"]
    assert container["command"] == ["torchrun", "train.py", "--lr", "0.1"]
    assert container["env"] == [{"name": "LR", "value": "a=b"}]
    assert container["volumeMounts"] == [{"name": "mount-0", "mountPath": "/data", "readOnly": True}]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8", "rdma/hca": "1"}


def test_code_is_listed_first_and_travels_before_the_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    done = CliRunner().invoke(
        app, ["run", "--dry-run", "--image", "i", "--code", str(tmp_path), "--", "python", "train.py"]
    )
    assert done.stderr.startswith("code: 1 file, 8 B") and "8 B  train.py" in done.stderr
    config_map, job = yaml.safe_load_all(done.stdout)
    assert config_map["metadata"]["name"] == f"{job['metadata']['name']}-code"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sweep", "lr"), "--sweep lr: is not of the form"),
        (("--until", "loss<1"), "--until is about a sweep"),
        (("--sweep", "a=1,2", "-f"), "--logs follows one job"),
        (("--gpus", "-1"), "--gpus -1 is less than 0"),
        (("--workers", "0"), "--workers 0 is less than 1"),
        (("--kind", "Foo"), "--kind Foo is none of PyTorchJob"),
        (("--env", "=a"), "--env =a: is not of the form"),
        (("--env", "NOT_SET_HERE"), "--env NOT_SET_HERE: is not of the form NAME=VALUE"),
        (("--mount", "claim"), "--mount claim: is not of the form CLAIM:/PATH"),
        (("--mount", "claim:data"), '--mount "data" is no absolute path'),
        (("--time", "soon"), "--time soon: is no"),
        (("--name", "a" * 64), "--name is 64 characters long"),
        (("--image", ""), "--image is missing"),
        (("--notebook", "--shell"), "--notebook and --shell"),
        (("--code", "/nope"), "--code /nope: is no directory"),
        (("--set", "a=b"), "--set a=b: changes a field of a template"),
        (("--label", "a"), "--label a: is not of the"),
        (("--node-selector", "a"), "--node-selector a: is not"),
        (("--idle", "1"), "--idle 1: is no duration"),
        (("--memory", "64GB"), "--memory 64GB is no amount such as 64Gi"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_a_wrong_option_is_named_in_one_line(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(app, ["run", "--dry-run", "--image", "i", *words, "--", "python"])
    assert said in str(done.exception) and "\n" not in str(done.exception)


def test_no_command_is_said_by_its_place() -> None:
    done = CliRunner().invoke(app, ["run", "--dry-run", "--image", "i"])
    assert str(done.exception) == "COMMAND is missing: write it after --"


# -- the hub


def test_a_job_with_code_runs_prints_its_log_ends_and_takes_its_code_along(up: Up, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    done = run(
        up,
        "--name",
        "coded",
        "--gpus",
        "8",
        "--workers",
        "2",
        "--image",
        "i",
        "--code",
        str(tmp_path),
        *SHORT,
        "-f",
        "--",
        "python",
        "train.py",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("pytorchjob/coded created, ") and lines[-1] == "pytorchjob/coded succeeded"
    assert any("coded-master-0" in line and "in the simulated cluster cfa" in line for line in lines), lines
    assert "fleet cancel coded" in done.stderr

    # The code went to the member before the pods, whole; it goes with the job, here and there.
    here, there = up.hub.find(f"{MAPS}/coded-code"), up.hub.find(f"{MEMBER}{MAPS}/coded-code")
    assert here is not None and there is not None and here["binaryData"] == there["binaryData"]
    assert b64decode(there["binaryData"]["code.tar.gz"])[:2] == b"\x1f\x8b"
    assert here["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob"

    # A clone has code of its own, which stays when the first job goes.
    where = ("--data-dir", str(up.folder))
    printed_first = list(yaml.safe_load_all(fleet("clone", "coded", "again", "--dry-run", *where).stdout))
    assert [body["metadata"]["name"] for body in printed_first] == ["again-code", "again"]
    assert fleet("clone", "coded", "again", *where).stdout == "pytorchjob/again created, as pytorchjob/coded\n"
    assert fleet("clone", "coded", "again", *where).returncode == 1  # the name is taken, and nothing of it changes
    assert fleet("cancel", "coded", "--data-dir", str(up.folder)).returncode == 0
    until("the code has gone here", lambda: up.hub.find(f"{MAPS}/coded-code") is None)
    until("the code has gone there", lambda: up.hub.find(f"{MEMBER}{MAPS}/coded-code") is None)
    assert fleet("wait", "again", "--timeout", "120", *where).returncode == 0
    own, there = up.hub.find(f"{MAPS}/again-code"), up.hub.find(f"{MEMBER}{MAPS}/again-code")
    assert own is not None and there is not None
    assert own["binaryData"] == there["binaryData"] == here["binaryData"]
    assert [owner["name"] for owner in own["metadata"]["ownerReferences"]] == ["again"]
    assert fleet("cancel", "again", *where).returncode == 0
    until("the code of the clone has gone", lambda: up.hub.find(f"{MAPS}/again-code") is None)


def test_the_code_of_a_sweep_goes_where_its_jobs_go_and_stays_until_the_last_has_gone(up: Up, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    words = ("--name", "swept", "--image", "i", "--code", str(tmp_path), "--array", "0-1", "--wait", *SHORT)
    done = run(up, *words, "--", "python", "train.py")
    assert done.returncode == 0 and "fleet cancel -l fleet.io/sweep=swept" in done.stderr, done.stderr
    assert {"pytorchjob/swept-0 succeeded", "pytorchjob/swept-1 succeeded"} <= set(done.stdout.splitlines())
    assert up.hub.find(f"{MEMBER}{MAPS}/swept-code") is not None
    assert fleet("cancel", "swept-0", "--data-dir", str(up.folder)).returncode == 0
    until("the job has gone", lambda: up.hub.find(f"{JOBS}/swept-0") is None)
    assert up.hub.find(f"{MAPS}/swept-code") is not None
    assert fleet("cancel", "swept-1", "--data-dir", str(up.folder)).returncode == 0
    until("the code has gone", lambda: up.hub.find(f"{MAPS}/swept-code") is None)


def test_a_job_that_fails_shows_its_log_and_its_end(up: Up) -> None:
    done = run(up, "--name", "fails", "--image", "i", *SHORT, "--annotation", "testbed/exit-code=3", "-f", "--", "a")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "fails-master-0" in done.stdout and "pytorchjob/fails failed" in done.stdout


def test_ctrl_c_leaves_the_job_alone_and_says_how_to_stop_it(up: Up) -> None:
    words = ("run", "--data-dir", str(up.folder), "--name", "long", "--image", "i", "--wait", "--", "sleep", "1d")
    process = subprocess.Popen([str(BIN / "fleet"), *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "Running" in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "pytorchjob/long goes on; fleet cancel long stops it"
    assert up.hub.find(f"{JOBS}/long") is not None


def test_an_interactive_job_says_how_it_is_reached(up: Up) -> None:
    for what, step in (("--shell", "fleet attach -i -t dev "), ("--notebook", "fleet port-forward dev 8888 ")):
        done = CliRunner().invoke(
            app, ["run", "--data-dir", str(up.folder), "--name", "dev", what, "--image", "i", "-n", "default"]
        )
        assert done.exit_code == 0 and step.replace("dev ", "dev -n default ") in done.stderr, done.stderr
        assert fleet("cancel", "dev", "--data-dir", str(up.folder)).returncode == 0
        until("it has gone", lambda: up.hub.find(f"{JOBS}/dev") is None)


def test_a_job_that_no_node_can_hold_says_so_at_once(up: Up) -> None:
    done = run(up, "--image", "i", "--resource", "amd.com/gpu=1", "--", "a")
    assert done.returncode == 0 and "no node has amd.com/gpu" in done.stderr, done.stderr


def test_the_hub_checks_a_job_that_it_does_not_store(up: Up, tmp_path: Path) -> None:
    done = run(up, "--name", "dry", "--image", "i", "--dry-run=server", "-o", "yaml", "--", "a")
    assert yaml.safe_load(done.stdout)["metadata"]["uid"] and up.hub.find(f"{JOBS}/dry") is None
    (tmp_path / "a.py").write_text("1")
    refused = run(up, "--name", "dry", "--image", "i", "--code", str(tmp_path), "--priority", "none", "--", "a")
    assert refused.returncode == 1 and "the hub has no PriorityClass" in refused.stderr
    assert up.hub.find(f"{MAPS}/dry-code") is None  # its code was not left behind
    assert run(up, "--name", "named", "--image", "i", "-o", "name", "--", "a").stdout == "pytorchjob/named\n"


def asked(up: Up, *words: str) -> Any:
    """The answer about a template, from this process."""
    return CliRunner().invoke(app, ["run", "--data-dir", str(up.folder), "--template", *words])


def test_templates_are_listed_filled_in_and_changed(up: Up) -> None:
    lines = [line.split(None, 2) for line in asked(up).stdout.splitlines()]
    assert lines[0] == ["NAME", "KIND", "DESCRIPTION"]
    assert ["pytorch", "PyTorchJob", "our image, on tainted nodes"] in lines and ["ray", "RayJob", "-"] in lines
    change = "spec.pytorchReplicaSpecs.Master.template.spec.tolerations.0.key=spot"
    done = asked(up, "pytorch", "--gpus", "2", "--set", change, "--dry-run", "--", "python", "eval.py")
    pod = yaml.safe_load(done.stdout)["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert pod["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    [container] = pod["containers"]
    assert (container["image"], container["command"]) == ("base", ["python", "eval.py"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nope",), 'there is no ConfigMap "nope" in namespace default'),
        (("plain",), "the ConfigMap is no template"),
        (("ray",), "its job is a RayJob"),
        (("broken",), "template broken: job.yaml is not YAML"),
        (("pytorch",), "COMMAND is missing"),
        (("pytorch", "--kind", "TFJob"), "--kind TFJob is not the kind"),
        (("pytorch", "--set", "spec.x"), "--set spec.x: is not of the form"),
    ],
)
def test_a_wrong_template_is_named(up: Up, words: tuple[str, ...], said: str) -> None:
    if words == ("plain",):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}}
        up.hub.request("POST", MAPS, body)
    assert said in str(asked(up, *words).exception)
