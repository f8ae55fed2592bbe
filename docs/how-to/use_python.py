"""The example of docs/how-to/use-python.md, cell by cell: needs a hub with a quota tree and a gang policy."""

# %% Connect
from fleet.client import Fleet, Forbidden, NotInTime

fleet = Fleet()

# %% Run a command in an image
ran = fleet.run(image="pytorch/pytorch:2.4.0", command="python train.py", gpus=1, workers=2, name="first")
print(fleet.job(ran))

# %% Or submit a manifest
manifest = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"generateName": "second-", "labels": {"sweep": "lr"}},
    "spec": ran.job.raw["spec"],
}
submitted = fleet.submit(manifest)

# %% Wait, and ask why
try:
    job = fleet.wait(submitted, until="started", timeout=60)
    print(job.state, "in", job.member)
except NotInTime:
    told = fleet.explain(submitted)
    print(told.reason, told.estimate)
    for change in told.changes:
        print("-", change.text)

# %% Watch jobs
for change in fleet.watch(labels="sweep=lr", timeout=3600):
    print(change.type, change.job.name, change.job.state, change.job.position, change.job.reason)
    if change.job.state in ("Running", "Failed"):
        break

# %% Watch objects
for changed in fleet.watch_objects("kubeflow.org/v1", "PyTorchJob", labels="sweep=lr"):
    print(changed.type, changed.object["metadata"]["name"])
    break  # without it, the loop goes on with each change

# %% Logs
for line in fleet.logs(submitted, tail=10):
    print(line.rank, line.pod, line.text)

# %% Logs that go on
for line in fleet.logs(submitted, follow=True):
    print(f"[{line.pod}] {line.text}")
    break  # without it, the loop goes on until the job is over

# %% Lists and tables
for job in fleet.jobs(state=["Running", "Queued"], labels="sweep=lr"):
    print(job.name, job.state, job.gpus)
gpus = fleet.jobs().df().groupby("state")["gpus"].sum()
print(gpus)

# %% Queues, use and the past
usage = fleet.usage()
print(usage[usage["resource"] == "nvidia.com/gpu"])
try:
    print(fleet.report("usage", by="user").df())
    print(fleet.history(user="alice").df())
except Forbidden as refused:
    print(refused)

# %% Try a change before it is made
member = {"name": "new", "nodes": [{"count": 8, "nvidia.com/gpu": 8, "cpu": "96", "memory": "800Gi"}]}
answer = fleet.what_if([{"AddMember": {"member": member}}])
for row in answer.rows:
    print(row.job, row.change, row.after)

# %% Verbs
fleet.hold("first")
fleet.release("first")
fleet.cancel("first")
fleet.cancel(submitted)
