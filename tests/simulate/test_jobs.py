"""Jobs in a simulated member live and end as the training operator and the job controller would have them."""

from __future__ import annotations

import pytest

from tests.simulate.conftest import KUBEFLOW, PODS, Member, kubeflow_job, replicas, template

PT = f"{KUBEFLOW}/pytorchjobs"


async def test_a_pytorchjob_runs_and_succeeds_in_the_operators_words(member: Member) -> None:
    specs = {"Master": replicas(1, run_for="3s"), "Worker": replicas(2, run_for="500ms")}
    await member.post(PT, kubeflow_job("PyTorchJob", "train", specs))
    running = [("Created", "True"), ("Running", "True")]
    await member.until(lambda: member.conditions(f"{PT}/train"), running)
    pods = await member.pods()
    assert sorted(pods) == ["train-master-0", "train-worker-0", "train-worker-1"]
    labels = pods["train-worker-1"]["metadata"]["labels"]
    assert labels["training.kubeflow.org/job-name"] == "train"
    assert labels["training.kubeflow.org/replica-type"] == "worker"
    assert labels["training.kubeflow.org/replica-index"] == "1"
    [owner] = pods["train-worker-1"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("PyTorchJob", "train", True)

    ended = [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    await member.until(lambda: member.conditions(f"{PT}/train"), ended)
    job = await member.get(f"{PT}/train")
    assert job is not None
    said = {c["type"]: (c["reason"], c["message"]) for c in job["status"]["conditions"]}
    assert said["Created"] == ("PyTorchJobCreated", "PyTorchJob default/train is created.")
    assert said["Running"] == ("PyTorchJobRunning", "PyTorchJob default/train is running.")
    assert said["Succeeded"] == ("PyTorchJobSucceeded", "PyTorchJob default/train successfully completed.")
    assert job["status"]["startTime"] <= job["status"]["completionTime"]
    counts = job["status"]["replicaStatuses"]
    assert (counts["Master"]["succeeded"], counts["Worker"]["succeeded"]) == (1, 2)
    await member.until(member.phases, dict.fromkeys(pods, "Succeeded"))  # cleanPodPolicy None keeps them


async def test_a_gang_without_room_waits_in_part_and_starts_when_room_comes(member: Member) -> None:
    await member.post(PT, kubeflow_job("PyTorchJob", "first", {"Master": replicas(1, gpus=4)}))
    await member.until(member.phases, {"first-master-0": "Running"})
    specs = {"Master": replicas(1, gpus=4), "Worker": replicas(1, gpus=4)}
    await member.post(PT, kubeflow_job("PyTorchJob", "second", specs))

    async def waiting() -> list[str]:
        pods = await member.pods()
        told = [
            c["message"] for p in pods.values() for c in p["status"].get("conditions") or () if c["status"] == "False"
        ]
        return [text for text in told if text.startswith("0/2")]

    assert await member.until(waiting) == ["0/2 nodes are available: 2 Insufficient nvidia.com/gpu."]
    await member.call("DELETE", f"{PT}/first")
    await member.until(member.phases, {"second-master-0": "Running", "second-worker-0": "Running"})


async def test_a_failing_pod_fails_a_job_that_never_restarts(member: Member) -> None:
    specs = {"Master": replicas(1), "Worker": replicas(1, run_for="100ms", exit_code=7)}
    await member.post(PT, kubeflow_job("PyTorchJob", "train", specs, cleanPodPolicy="Running"))
    ended = [("Created", "True"), ("Running", "False"), ("Failed", "True")]
    await member.until(lambda: member.conditions(f"{PT}/train"), ended)
    job = await member.get(f"{PT}/train")
    assert job is not None
    text = "PyTorchJob default/train is failed because 1 Worker replica(s) failed."
    assert job["status"]["conditions"][-1]["message"] == text
    assert job["status"]["replicaStatuses"]["Worker"]["failed"] == 1
    # cleanPodPolicy Running takes what still runs and keeps what has ended.
    await member.until(member.phases, {"train-worker-0": "Failed"})


async def test_a_pod_is_replaced_until_the_backoff_limit(member: Member) -> None:
    specs = {"Master": replicas(1, "OnFailure", run_for="50ms", exit_code=1)}
    await member.post(PT, kubeflow_job("PyTorchJob", "train", specs, backoffLimit=2))

    async def last() -> tuple[str, str]:
        job = await member.get(f"{PT}/train")
        conditions = ((job or {}).get("status") or {}).get("conditions") or [{"type": "", "message": ""}]
        return conditions[-1]["type"], conditions[-1]["message"]

    text = "PyTorchJob default/train has failed because it has reached the specified backoff limit"
    await member.until(last, ("Failed", text))


async def test_an_exit_code_of_a_signal_is_tried_again(member: Member) -> None:
    specs = {"Master": replicas(1, "ExitCode", run_for="50ms", exit_code=137)}
    await member.post(PT, kubeflow_job("PyTorchJob", "train", specs))

    async def restarting() -> bool:
        return ("Restarting", "True") in await member.conditions(f"{PT}/train")

    assert await member.until(restarting)


async def test_a_suspended_job_has_no_pods_until_it_is_resumed(member: Member) -> None:
    await member.post(PT, kubeflow_job("PyTorchJob", "train", {"Master": replicas(1)}, suspend=True))
    await member.until(lambda: member.conditions(f"{PT}/train"), [("Created", "True"), ("Suspended", "True")])
    assert await member.pods() == {}
    merge = "application/merge-patch+json"
    await member.call("PATCH", f"{PT}/train", {"spec": {"runPolicy": {"suspend": False}}}, merge)
    await member.until(member.phases, {"train-master-0": "Running"})
    await member.call("PATCH", f"{PT}/train", {"spec": {"runPolicy": {"suspend": True}}}, merge)
    await member.until(member.pods, {})


async def test_a_deleted_job_takes_its_pods(member: Member) -> None:
    specs = {"Master": replicas(1), "Worker": replicas(3)}
    await member.post(PT, kubeflow_job("PyTorchJob", "train", specs))
    await member.until(lambda: _count(member, "Running"), 4)
    await member.call("DELETE", f"{PT}/train")
    await member.until(member.pods, {})
    assert await member.get(f"{PT}/train") is None


async def test_a_job_past_its_deadline_fails_and_past_its_ttl_goes(member: Member) -> None:
    job = kubeflow_job(
        "PyTorchJob", "train", {"Master": replicas(1)}, activeDeadlineSeconds=1, ttlSecondsAfterFinished=1
    )
    await member.post(PT, job)

    async def failed() -> bool:
        return ("Failed", "True") in await member.conditions(f"{PT}/train")

    assert await member.until(failed)
    await member.until(lambda: _gone(member, f"{PT}/train"))
    await member.until(member.pods, {})


async def test_a_job_of_another_manager_is_left_alone(member: Member) -> None:
    specs = {"Master": replicas(1)}
    await member.post(PT, kubeflow_job("PyTorchJob", "left", specs, managedBy="kueue.x-k8s.io/multikueue"))
    await member.post(PT, kubeflow_job("PyTorchJob", "own", specs, managedBy="kubeflow.org/training-operator"))
    await member.until(member.phases, {"own-master-0": "Running"})
    job = await member.get(f"{PT}/left")
    assert job is not None and not job.get("status")


async def test_a_tfjob_without_a_chief_ends_with_its_first_worker(member: Member) -> None:
    path = f"{KUBEFLOW}/tfjobs/tf"
    specs = {"PS": replicas(1), "Worker": replicas(2, run_for="200ms")}
    await member.post(f"{KUBEFLOW}/tfjobs", kubeflow_job("TFJob", "tf", specs, cleanPodPolicy="All"))
    ended = [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    await member.until(lambda: member.conditions(path), ended)
    await member.until(member.pods, {})


async def test_an_mpijob_runs_with_all_its_workers_and_ends_with_its_launcher(member: Member) -> None:
    path = f"{KUBEFLOW}/mpijobs/mpi"
    specs = {"Launcher": replicas(1, gpus=0, run_for="500ms"), "Worker": replicas(2)}
    await member.post(f"{KUBEFLOW}/mpijobs", kubeflow_job("MPIJob", "mpi", specs))
    await member.until(lambda: member.conditions(path), [("Created", "True"), ("Running", "True")])
    assert sorted(await member.pods()) == ["mpi-launcher", "mpi-worker-0", "mpi-worker-1"]
    ended = [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    await member.until(lambda: member.conditions(path), ended)


@pytest.mark.parametrize(
    ("kind", "specs"),
    [
        ("JAXJob", {"Worker": 2}),
        ("PaddleJob", {"Worker": 2}),
        ("PaddleJob", {"Master": 1, "Worker": 1}),
        ("XGBoostJob", {"Master": 1, "Worker": 1}),
    ],
)
async def test_the_other_kinds_run_and_end(member: Member, kind: str, specs: dict[str, int]) -> None:
    path = f"{KUBEFLOW}/{kind.lower()}s"
    parts = {type_: replicas(count, run_for="300ms") for type_, count in specs.items()}
    await member.post(path, kubeflow_job(kind, "other", parts))
    await member.until(lambda: member.conditions(f"{path}/other"), [("Created", "True"), ("Running", "True")])
    assert len(await member.pods()) == 2
    ended = [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    await member.until(lambda: member.conditions(f"{path}/other"), ended)


BATCH = "/apis/batch/v1/namespaces/default/jobs"


def batch_job(name: str, **spec: object) -> dict[str, object]:
    made = {"template": template(run_for="200ms", restartPolicy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": made}


async def test_a_batch_job_makes_its_completions_a_few_at_a_time(member: Member) -> None:
    await member.post(BATCH, batch_job("job", completions=5, parallelism=2))
    await member.until(lambda: _batch(member), (0, 5, 0, "Complete"))
    phases = await member.phases()
    assert len(phases) == 5 and set(phases.values()) == {"Succeeded"}


async def test_an_indexed_job_runs_each_index_once(member: Member) -> None:
    await member.post(BATCH, batch_job("job", completions=3, parallelism=3, completionMode="Indexed"))
    await member.until(lambda: _batch(member), (0, 3, 0, "Complete"))
    label = "batch.kubernetes.io/job-completion-index"
    assert sorted(p["metadata"]["labels"][label] for p in (await member.pods()).values()) == ["0", "1", "2"]


async def test_a_batch_job_gives_up_after_its_backoff_limit(member: Member) -> None:
    failing = template(run_for="50ms", exit_code=3, restartPolicy="Never")
    await member.post(BATCH, batch_job("job", completions=1, backoffLimit=1, template=failing))
    await member.until(lambda: _batch(member), (0, 0, 2, "Failed"))


async def test_the_pods_of_a_work_queue_end_by_themselves_when_one_has_succeeded(member: Member) -> None:
    await member.post(BATCH, batch_job("job", parallelism=3, template=template(restartPolicy="Never")))
    await member.until(lambda: _count(member, "Running"), 3)
    first, *others = sorted(await member.pods())
    await _succeed(member, first)
    await member.until(lambda: _batch(member), (2, 1, 0, ""))
    assert sorted(await member.pods()) == [first, *others]
    for name in others:
        await _succeed(member, name)
    await member.until(lambda: _batch(member), (0, 3, 0, "Complete"))


async def test_a_batch_job_says_that_it_is_over_when_its_last_pod_has_ended(member: Member) -> None:
    await member.post(
        BATCH, batch_job("job", parallelism=3, completions=3, backoffLimit=0, template=template(restartPolicy="Never"))
    )
    await member.until(lambda: _count(member, "Running"), 3)
    seen: list[tuple[int, list[str]]] = []

    async def over() -> bool:
        job = await member.get(f"{BATCH}/job")
        status = (job or {})["status"]
        types = [condition["type"] for condition in status.get("conditions") or ()]
        seen.append((status["terminating"], types))
        return "Failed" in types and not await _count(member, "Running")

    await _end(member, sorted(await member.pods())[0], "Failed")
    await member.until(over)
    told = [one for one in seen if "Failed" in one[1]]
    assert told == [(0, ["FailureTarget", "Failed"])], "no pod runs any more when it is told"


async def test_a_node_has_room_for_files(member: Member) -> None:
    asks = template(restartPolicy="Never")
    asks["spec"]["containers"][0]["resources"]["requests"] = {"ephemeral-storage": "10Gi"}
    await member.post(BATCH, batch_job("job", template=asks))
    await member.until(lambda: _count(member, "Running"), 1)


async def _succeed(member: Member, name: str) -> None:
    await _end(member, name, "Succeeded")


async def _end(member: Member, name: str, phase: str) -> None:
    await member.call("PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase}}, "application/merge-patch+json")


async def _batch(member: Member) -> tuple[int, int, int, str]:
    job = await member.get(f"{BATCH}/job")
    status = (job or {}).get("status") or {}
    conditions = status.get("conditions") or [{"type": ""}]
    return status.get("active", 0), status.get("succeeded", 0), status.get("failed", 0), conditions[-1]["type"]


async def _count(member: Member, phase: str) -> int:
    return list((await member.phases()).values()).count(phase)


async def _gone(member: Member, path: str) -> bool:
    return await member.get(path) is None
