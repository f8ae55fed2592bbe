"""A job from an image and a command, made as `fleet run` makes it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.client.errors import BadManifest
from fleet.client.steps import Session, Steps
from fleet.client.submitting import Submission, submit, suffixed
from fleet.submission import Mount, Request, RequestFault, build


def run(
    session: Session,
    *,
    image: str = "",
    command: str | Sequence[str] = (),
    gpus: int | None = None,
    workers: int | None = None,
    name: str | None = None,
    namespace: str | None = None,
    cpu: str = "",
    memory: str = "",
    resources: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    mounts: Mapping[str, str] | None = None,
    kind: str = "",
    time_s: int | None = None,
    queue: str = "",
    priority: str = "",
    topology: str = "",
    preferred_topology: str = "",
    labels: Mapping[str, str] | None = None,
    template: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> Steps[Submission]:
    """Submit a job that runs `command` in `image`. Amounts are those of each of the `workers`.

    `command`: words, or one text that is split as a shell splits it; `mounts`: the path of each volume claim; `time_s`:
    the longest time that it may run; `topology`: levels, such as a rack, of which all pods stand in one domain, and
    `preferred_topology` as far as it goes; `kind`: PyTorchJob unless the `template` says otherwise; `name`: generated
    where none is given."""
    words = shlex.split(command) if isinstance(command, str) else list(command)
    request = Request(
        name=name or suffixed("run-"),
        image=image,
        command=words,
        kind=kind,
        workers=workers,
        gpus=gpus,
        cpu=cpu,
        memory=memory,
        resources=dict(resources or {}),
        env=dict(env or {}),
        mounts=[Mount(claim, path) for claim, path in (mounts or {}).items()],
        time_s=time_s,
        queue=queue,
        priority=priority,
        topology=topology,
        preferred_topology=preferred_topology,
        labels=dict(labels or {}),
        template=dict(template) if template is not None else None,
    )
    try:
        manifests = build(request)
    except RequestFault as wrong:
        raise BadManifest(str(wrong)) from wrong
    return (yield from submit(session, manifests, namespace=namespace, dry_run=dry_run))
