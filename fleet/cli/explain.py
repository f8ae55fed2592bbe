"""`fleet explain`: everything that the hub knows of one job, its reason first."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from fleet.cli import explanation
from fleet.cli.failure import Failure
from fleet.cli.options import DataDirOption, KubeconfigOption, NamespaceOption, Output, OutputOption


def explain(
    job: Annotated[str, typer.Argument(help="NAME, or KIND/NAME when several kinds have a job of that name.")],
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Say why a job waits, when it starts, and what would help."""
    from fleet.cli import jobs
    from fleet.cli.hub import connect
    from fleet.cli.output import show_one

    hub = connect(kubeconfig, data_dir)
    kind, _, name = job.rpartition("/")
    found = [
        binding
        for binding in hub.list(f"{jobs.BINDINGS}/namespaces/{namespace}/resourcebindings")
        if (resource := (binding.get("spec") or {}).get("resource") or {}).get("name") == name
        and (not kind or resource.get("kind", "").lower() == kind.lower())
    ]
    if not found:
        raise Failure(f'no policy has taken a job "{job}" in namespace {namespace} (fleet jobs -A lists them)')
    if len(found) > 1:
        kinds = ", ".join(sorted(binding["spec"]["resource"]["kind"] + "/" + name for binding in found))
        raise Failure(f'"{name}" names several jobs: {kinds}')
    binding = found[0]
    unit = hub.find(f"{jobs.UNITS}/namespaces/{namespace}/queueunits/{binding['metadata']['name']}-rb-qu")
    record = details(binding, unit, jobs.record(binding, unit, time.time()))
    waits = record["state"] in ("Queued", "Waiting", "BackOff")
    resource = binding["spec"]["resource"]
    path = f"/fleet/v1/jobs/{namespace}/{resource['kind']}/{resource['name']}/explanation"
    record["explanation"] = hub.find(path) if waits else None
    if output is Output.table:
        print("\n".join(_lines(record)))
    else:
        show_one(record, output)


def details(binding: dict[str, Any], unit: dict[str, Any] | None, line: dict[str, Any]) -> dict[str, Any]:
    """The line of `fleet jobs`, and the parts behind it."""
    spec = binding.get("spec") or {}
    annotations = binding["metadata"].get("annotations") or {}
    return {
        **line,
        "queue": ((unit or {}).get("spec") or {}).get("queue"),
        "priority": ((unit or {}).get("spec") or {}).get("priority"),
        "policy": annotations.get("fleet.io/policy"),
        "attempt": int(annotations.get("fleet.io/attempt", "0")),
        "components": [
            {
                "name": component.get("name"),
                "replicas": component.get("replicas"),
                "requests": (component.get("replicaRequirements") or {}).get("resourceRequest") or {},
            }
            for component in spec.get("components") or ()
        ],
        "conditions": (binding.get("status") or {}).get("conditions") or [],
    }


def _lines(record: dict[str, Any]) -> list[str]:
    lines = [f"{record['kind']} {record['namespace']}/{record['name']}: {record['state']}"]
    if record["member"]:
        lines[0] += f" in {record['member']}"
    if record["reason"]:
        lines.append(f"Reason:     {record['reason']}" + (f"  ({record['code']})" if record["code"] else ""))
    for key, value in (record["numbers"] or {}).items():
        lines.append(f"  {key}: {value}")
    if record["explanation"] is not None:
        lines += explanation.lines(record["explanation"])
    for title in ("queue", "priority", "policy", "attempt", "age"):
        if record[title] is not None:
            lines.append(f"{title.capitalize() + ':':<11} {record[title]}")
    lines.append("Components:")
    for component in record["components"]:
        requests = ", ".join(f"{name}={amount}" for name, amount in component["requests"].items())
        lines.append(f"  {component['replicas']} × {component['name']}: {requests or 'no requests'}")
    lines.append("Conditions:")
    for condition in record["conditions"]:
        text = f"  {condition.get('type')}={condition.get('status')} {condition.get('reason', '')}".rstrip()
        lines.append(f"{text}: {condition['message']}" if condition.get("message") else text)
    return lines
