"""Override policies: the differences between members of one manifest. Pure.

As in Karmada: cluster-wide policies first, then those of the namespace; of each kind a policy with a closer selector
later, so that it has the last word, and then by name. Within one policy the order is image, command, args, labels,
annotations, field, plaintext. A patch that does not fit the manifest changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonpatch

from fleet.admission.overriding import rules_of, wrong_overriders
from fleet.admission.selecting import selects
from fleet.bindings.matching import ClusterFields, affinity_matches
from fleet.controllers.dispatch.documents import BadDocument, document_changed
from fleet.controllers.dispatch.outgoing import UnsafeManifest
from fleet.values.ports import Body
from fleet.values.untyped import mapping

OVERRIDES = ("overridepolicies", "clusteroverridepolicies")
UNREADABLE = (TypeError, AttributeError, KeyError, IndexError, ValueError)  # BadOverride and UnsafeManifest among them


class BadOverride(ValueError):
    """An override policy cannot be applied to this manifest; the text names the policy and the flaw."""


def overridden(manifest: Body, source: Body, cluster: ClusterFields, policies: Iterable[Body]) -> Body:
    """The manifest as this member gets it. `source` is the object on the hub, which selectors look at. Raises
    BadOverride."""
    result = manifest
    for policy in in_order(policies, source):
        try:
            result = _by_policy(result, source, cluster, policy)
        except UNREADABLE as error:
            if isinstance(error, BadOverride):
                raise
            # The stored policy may be older than its schema; the error's own text may quote the manifest.
            raise BadOverride(f"{called(policy)} cannot be applied ({type(error).__name__})") from error
    return result


def blaming(make: Callable[[Sequence[Body]], Body], source: Body, policies: Sequence[Body]) -> Body:
    """The manifest that `make` makes with these policies. Where it cannot be made, or must not be sent, with one of
    them but could be without it, that one is to blame: raises BadOverride; else what `make` raises."""
    try:
        return make(policies)
    except UNREADABLE:
        ordered = in_order(policies, source)
        for count in range(len(ordered) + 1):
            try:
                make(ordered[:count])
            except UNREADABLE as error:
                if count == 0 or isinstance(error, BadOverride):
                    raise
                why = (
                    str(error)
                    if isinstance(error, UnsafeManifest)
                    else f"its result is unreadable ({type(error).__name__})"
                )
                raise BadOverride(f"{called(ordered[count - 1])}: {why}") from error
        raise


def in_order(policies: Iterable[Body], source: Body) -> list[Body]:
    """In the order in which they are applied to this object; a policy that is not for it stands anywhere."""
    return sorted(policies, key=lambda policy: _turn(policy, source))


def _turn(policy: Body, source: Body) -> tuple[bool, int, str]:
    namespace = str(policy["metadata"].get("namespace") or "")
    selectors = mapping(policy.get("spec")).get("resourceSelectors")
    return bool(namespace), selects(selectors, source, namespace) if selectors else 1, policy["metadata"]["name"]


def called(policy: Body) -> str:
    return f"override policy {policy['metadata']['name']}"


def _by_policy(manifest: Body, source: Body, cluster: ClusterFields, policy: Body) -> Body:
    namespace = policy["metadata"].get("namespace", "")
    if namespace and namespace != source["metadata"].get("namespace", ""):
        return manifest  # with any text
    spec = mapping(policy.get("spec"))
    selectors = spec.get("resourceSelectors")
    if selectors and not selects(selectors, source, namespace):
        return manifest
    for _, rule in rules_of(spec):
        if affinity_matches(rule.get("targetCluster"), cluster):
            overriders = rule.get("overriders") or {}
            for field, why in wrong_overriders(overriders, tenant=bool(namespace)):
                raise BadOverride(f"{called(policy)}: {field}: {why}")
            manifest = _apply(copy.deepcopy(manifest), overriders, called(policy))
    return manifest


def _apply(manifest: Body, overriders: Mapping[str, Any], policy: str) -> Body:
    for entry in overriders.get("imageOverrider") or ():
        _images(manifest, entry)
    for field in ("command", "args"):
        for entry in overriders.get(f"{field}Overrider") or ():
            for container in _containers(manifest):
                if container.get("name") == entry.get("containerName"):
                    container[field] = _list_changed(container.get(field) or [], entry)
    for field in ("labels", "annotations"):
        for entry in overriders.get(f"{field}Overrider") or ():
            _map_changed(manifest["metadata"].setdefault(field, {}), entry)
    for entry in overriders.get("fieldOverrider") or ():
        _document(manifest, entry, policy)
    operations = [
        {"op": entry["operator"], "path": entry["path"], **({"value": entry["value"]} if "value" in entry else {})}
        for entry in overriders.get("plaintext") or ()
    ]
    for operation in operations:
        try:
            manifest = dict(jsonpatch.apply_patch(manifest, [operation]))
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            # The library's own text prints the whole manifest.
            what = f"{operation['op']} {operation['path']}"
            raise BadOverride(f"{policy}: {what} does not fit the manifest") from error
    return manifest


def _containers(body: Any) -> Iterator[dict[str, Any]]:
    """Every container of every pod template in the manifest, wherever its kind keeps them."""
    if isinstance(body, dict):
        for name in ("initContainers", "containers"):
            listed = body.get(name)
            if isinstance(listed, list):
                yield from (entry for entry in listed if isinstance(entry, dict))
        for value in body.values():
            yield from _containers(value)
    elif isinstance(body, list):
        for value in body:
            yield from _containers(value)


def _list_changed(current: list[str], entry: Mapping[str, Any]) -> list[str]:
    values = [str(value) for value in entry.get("value") or ()]
    if entry.get("operator") == "remove":
        return [value for value in current if value not in values]
    return [*current, *values]


def _map_changed(current: dict[str, str], entry: Mapping[str, Any]) -> None:
    for key, value in (entry.get("value") or {}).items():
        if entry.get("operator") == "remove":
            current.pop(key, None)
        elif entry.get("operator") == "add" or key in current:
            current[key] = value


def _images(manifest: Body, entry: Mapping[str, Any]) -> None:
    path = (entry.get("predicate") or {}).get("path")
    for container in _containers(manifest):
        if path is None and isinstance(container.get("image"), str):
            container["image"] = image_changed(container["image"], entry)
    if path:
        try:
            image = jsonpatch.JsonPointer(path).resolve(manifest)
        except jsonpatch.JsonPointerException:
            return
        if isinstance(image, str):
            jsonpatch.apply_patch(
                manifest, [{"op": "replace", "path": path, "value": image_changed(image, entry)}], in_place=True
            )


def _document(manifest: Body, entry: Mapping[str, Any], policy: str) -> None:
    """Change the document in one text field, in place."""
    path = entry["fieldPath"]
    try:
        text = jsonpatch.JsonPointer(path).resolve(manifest)
        changed = document_changed(text, entry)
        jsonpatch.apply_patch(manifest, [{"op": "replace", "path": path, "value": changed}], in_place=True)
    except jsonpatch.JsonPointerException as error:
        raise BadOverride(f"{policy}: {path} is not in the manifest") from error
    except BadDocument as error:
        raise BadOverride(f"{policy}: {path}: {error}") from error


def image_changed(image: str, entry: Mapping[str, Any]) -> str:
    """The image with its Registry, Repository or Tag added to, removed or replaced."""
    rest, digest = image.split("@", 1) if "@" in image else (image, "")
    first, slash, remainder = rest.partition("/")
    has_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, remainder) if has_registry else ("", rest)
    repository, _, tag = path.partition(":")
    parts = {"Registry": registry, "Repository": repository, "Tag": digest or tag}
    name, value = str(entry.get("component")), str(entry.get("value") or "")
    operator = entry.get("operator")
    if operator == "add":
        parts[name] = parts.get(name, "") + value
    elif operator == "remove":
        parts[name] = ""
    else:
        parts[name] = value
    mark = "@" if parts["Tag"].startswith("sha256:") else ":"
    return (
        (f"{parts['Registry']}/" if parts["Registry"] else "")
        + parts["Repository"]
        + (mark + parts["Tag"] if parts["Tag"] else "")
    )
