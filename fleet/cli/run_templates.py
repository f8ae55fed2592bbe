"""Templates of `fleet run`: manifests of jobs in ConfigMaps of the namespace, which options are put into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.cli.failure import Failure
from fleet.wellknown import LABEL_TEMPLATE

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

CONFIG_MAPS = "/api/v1/namespaces/{namespace}/configmaps"
DESCRIPTION = "kubernetes.io/description"
KEY = "job.yaml"
HOW = "fleet run --template lists the templates"
Body = dict[str, Any]


def show(hub: HubClient, namespace: str) -> None:
    """Print the templates of the namespace."""
    from fleet.cli.options import Output
    from fleet.cli.output import show

    path = CONFIG_MAPS.format(namespace=namespace)
    rows = []
    for config_map in hub.list(path, labelSelector=f"{LABEL_TEMPLATE}=true"):
        name = config_map["metadata"]["name"]
        try:
            kind = str(_manifest(config_map)["kind"])
        except Failure as failure:
            kind = f"({failure})"
        about = (config_map["metadata"].get("annotations") or {}).get(DESCRIPTION, "")
        rows.append({"name": name, "kind": kind, "description": about})
    show(rows, ("name", "kind", "description"), Output.table, nothing=f"no templates in namespace {namespace}")


def manifest_of(hub: HubClient, namespace: str, name: str) -> Body:
    """The job of a template. Raises Failure."""
    config_map = hub.find(f"{CONFIG_MAPS.format(namespace=namespace)}/{name}")
    if config_map is None:
        raise Failure(f'--template {name}: there is no ConfigMap "{name}" in namespace {namespace} ({HOW})')
    if (config_map["metadata"].get("labels") or {}).get(LABEL_TEMPLATE) != "true":
        raise Failure(
            f"--template {name}: the ConfigMap is no template: its label {LABEL_TEMPLATE} is not true ({HOW})"
        )
    return _manifest(config_map)


def _manifest(config_map: Body) -> Body:
    import yaml

    from fleet.values.yamlread import load_yaml

    name = config_map["metadata"]["name"]
    text = (config_map.get("data") or {}).get(KEY)
    if text is None:
        raise Failure(f"template {name} has no {KEY} in its data")
    try:
        body = load_yaml(text.encode(), [])
    except (yaml.YAMLError, ValueError) as error:
        raise Failure(f"template {name}: {KEY} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(body, dict) or not body.get("kind"):
        raise Failure(f"template {name}: {KEY} is no manifest of a job")
    return body
