"""Containers: names, images, ports, variables, mounts, probes and amounts of resources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from api.admission.causes import duplicate, forbidden, invalid, not_found, required
from api.admission.kubernetes.language import (
    Check,
    Object,
    at,
    every,
    join,
    label,
    natural,
    needed,
    of,
    one_of,
    port_problems,
    subdomain,
)
from api.admission.kubernetes.resources import container_resources
from api.engine.status import Cause

PROTOCOLS = ("SCTP", "TCP", "UDP")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_MAX = 253
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_PORT_NAME_MAX = 15
_SIDECAR = "may not be set for init containers without restartPolicy=Always"


def port_name_problems(name: str) -> Iterator[str]:
    """The faults of the name of a port (an IANA service name)."""
    if len(name) > _PORT_NAME_MAX:
        yield f"must be no more than {_PORT_NAME_MAX} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def port_or_name(field: str) -> Check:
    """A number or a name of a port."""

    def check(obj: Object, path: str) -> Iterator[Cause]:
        value = obj.get(field, 0)
        problems: Iterable[str] = port_name_problems(value) if isinstance(value, str) else port_problems(value)
        yield from (invalid(join(path, field), value, why) for why in problems)

    return check


def config_key_problems(key: str) -> Iterator[str]:
    """The faults of a key of a ConfigMap or a Secret."""
    if len(key) > _CONFIG_KEY_MAX:
        yield f"must be no more than {_CONFIG_KEY_MAX} characters"
    if not _CONFIG_KEY.fullmatch(key):
        yield _CONFIG_KEY_TEXT
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def backsteps(value: str) -> Iterator[str]:
    if ".." in value.split("/"):
        yield "must not contain '..'"


def descending(value: str) -> Iterator[str]:
    """The faults of a relative path."""
    if value.startswith("/"):
        yield "must be a relative path"
    yield from backsteps(value)


def _env_name_problems(name: str) -> Iterator[str]:
    if not all(" " <= c <= "~" and c != "=" for c in name):
        yield _ENV_TEXT


def _ports(container: Object, path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        place, name = f"{path}.ports[{index}]", port.get("name") or ""
        problems = list(port_name_problems(name)) if name else []
        yield from (invalid(f"{place}.name", name, why) for why in problems)
        if name and not problems:
            if name in names:
                yield duplicate(f"{place}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required(f"{place}.containerPort")
        yield from _PORT(port, place)


_PORT = every(
    of("containerPort", lambda value: port_problems(value) if value else ()),
    of("hostPort", lambda value: port_problems(value) if value else ()),
    one_of("protocol", *PROTOCOLS),
)
_NAMED_KEY = every(
    lambda ref, path: () if ref.get("name") else [*_no_name(f"{path}.name")],
    subdomain("name"),
    needed("key"),
    of("key", config_key_problems),
)


def _no_name(path: str) -> Iterator[Cause]:
    from fleet.values.names import subdomain_problems

    yield from (invalid(path, "", why) for why in subdomain_problems(""))


def _value_from(variable: Object, path: str) -> Iterator[Cause]:
    source = variable.get("valueFrom")
    if source is None:
        return
    place = f"{path}.valueFrom"
    yield from _SOURCE(source, place)
    sources = [name for name in _SOURCES if source.get(name) is not None]
    if not sources:
        listed = ", ".join(f"`{name}`" for name in _SOURCES[:-1])
        yield invalid(place, "", f"must specify one of: {listed} or `{_SOURCES[-1]}`")
    elif variable.get("value"):
        yield invalid(place, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield invalid(place, "", "may not have more than one field specified at a time")


_SOURCE = every(
    at("fieldRef", needed("fieldPath")),
    at("resourceFieldRef", needed("resource")),
    at("configMapKeyRef", _NAMED_KEY),
    at("secretKeyRef", _NAMED_KEY),
)


def _env_from(container: Object, path: str) -> Iterator[Cause]:
    for index, source in enumerate(container.get("envFrom") or ()):
        here = f"{path}.envFrom[{index}]"
        yield from _ENV_FROM(source, here)
        given = sum(source.get(name) is not None for name in ("configMapRef", "secretRef"))
        if given != 1:
            why = (
                "may not have more than one field specified at a time"
                if given
                else "must specify one of: `configMapRef` or `secretRef`"
            )
            yield invalid(f"{path}.envFrom", "", why)


_ENV_FROM = every(
    of("prefix", _env_name_problems),
    at("configMapRef", needed("name"), subdomain("name")),
    at("secretRef", needed("name"), subdomain("name")),
)


def _mounts(container: Object, path: str, volumes: Mapping[str, Object]) -> Iterator[Cause]:
    devices = container.get("volumeDevices") or ()
    names, paths = {d.get("name") for d in devices}, {d.get("devicePath") for d in devices}
    mount_paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        place = f"{path}.volumeMounts[{index}]"
        name, mount_path = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{place}.name")
        if name not in volumes:
            yield not_found(f"{place}.name", name)
        if not mount_path:
            yield required(f"{place}.mountPath")
        if mount_path in mount_paths:
            yield invalid(f"{place}.mountPath", mount_path, "must be unique")
        mount_paths.add(mount_path)
        if name in names:
            yield invalid(f"{place}.name", name, "must not already exist in volumeDevices")
        if mount_path in paths:
            yield invalid(f"{place}.mountPath", mount_path, "must not already exist as a path in volumeDevices")
        for field in ("subPath", "subPathExpr"):  # Kubernetes leaves the index out of these paths
            value = mount.get(field) or ""
            yield from (invalid(f"{path}.volumeMounts.{field}", value, why) for why in descending(value))


def _probe(field: str) -> Check:
    return at(field, _handler, _PROBE_NUMBERS, *_PROBE_RULES[field])


def _handler(obj: Object, path: str) -> Iterator[Cause]:
    given = [name for name in _HANDLERS if obj.get(name) is not None]
    if not given:
        yield required(path, "must specify a handler type")
    for name in given[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
    yield from _ACTIONS({name: obj[name] for name in given[:1]}, path)


_ACTIONS = every(
    at("exec", needed("command")),
    at("httpGet", needed("path"), port_or_name("port"), one_of("scheme", "HTTP", "HTTPS")),
    at("tcpSocket", port_or_name("port")),
    at("grpc", of("port", port_problems)),
)
_PROBE_NUMBERS = natural(
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"
)
_ONCE = of("successThreshold", lambda value: () if value == 1 else ("must be 1",))
_GRACE = of("terminationGracePeriodSeconds", lambda value: () if value > 0 else ("must be greater than 0",))
_PROBE_RULES: dict[str, tuple[Check, ...]] = {
    "livenessProbe": (_GRACE, _ONCE),
    "readinessProbe": (of("terminationGracePeriodSeconds", lambda value: ("must not be set for readinessProbes",)),),
    "startupProbe": (_GRACE, _ONCE),
}
_LIFE: Check = every(
    at("lifecycle.postStart", _handler), at("lifecycle.preStop", _handler), *(_probe(field) for field in _PROBE_RULES)
)
_COMMON = every(
    needed("name", "image"),
    label("name"),
    one_of("terminationMessagePolicy", "File", "FallbackToLogsOnError"),
    _ports,
    at("env[]", needed("name"), of("name", _env_name_problems), _value_from),
    _env_from,
    one_of("imagePullPolicy", "Always", "IfNotPresent", "Never"),
)


def _host_ports(containers: Sequence[Object], path: str) -> Iterator[Cause]:
    keys: set[tuple[Any, ...]] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            key = (port.get("protocol"), port.get("hostIP") or "", port.get("hostPort"))
            if key[2]:
                if key in keys:
                    text = f"{key[0]}/{key[1]}/{key[2]}"
                    yield duplicate(f"{path}[{index}].ports[{position}].hostPort", text)
                keys.add(key)


def containers(spec: Object, path: str, volumes: Mapping[str, Object]) -> Iterator[Cause]:
    """The containers and the init containers of a pod. `volumes`: those that may be mounted, by name."""
    items: Sequence[Object] = spec.get("containers") or ()
    place = f"{path}.containers"
    if not items:
        yield required(place)
    names: set[str] = set()
    for index, container in enumerate(items):
        yield from _container(container, f"{place}[{index}]", volumes)
        name = container.get("name") or ""
        if name in names:
            yield duplicate(f"{place}[{index}].name", name)
        names.add(name)
        yield from _LIFE(container, f"{place}[{index}]")
    yield from _host_ports(items, place)
    for index, container in enumerate(spec.get("initContainers") or ()):
        inner, name = f"{path}.initContainers[{index}]", container.get("name") or ""
        yield from _container(container, inner, volumes)
        if name in names:
            yield duplicate(f"{inner}.name", name)
        elif name:
            names.add(name)
        if container.get("restartPolicy") == "Always":
            yield from _LIFE(container, inner)
        else:
            fields = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            yield from (forbidden(f"{inner}.{f}", _SIDECAR) for f in fields if container.get(f) is not None)


def _container(container: Object, path: str, volumes: Mapping[str, Object]) -> Iterator[Cause]:
    yield from _COMMON(container, path)
    yield from _mounts(container, path, volumes)
    yield from container_resources(container.get("resources") or {}, f"{path}.resources")
