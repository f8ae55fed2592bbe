"""The requests about CRDs of several versions that both servers are asked, in order."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from tests.api.converters import GROUP
from tests.api.likeness import APPLY, JSON_PATCH, MERGE, TABLE, Ask

Body = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APIS = f"/apis/{GROUP}"
GADGETS = "gadgets.example.com"  # discovery shows a whole group
NAME = f"gadgets.{GADGETS}"
STRICT = "?fieldValidation=Strict"


@dataclass(frozen=True, slots=True)
class Until:
    """Ask again until the answer has this code and has, or has not, this text in it. No part of what is compared."""

    ask: Ask
    code: int
    text: str = ""
    absent: str = ""


def _text(**more: Any) -> Body:
    return {"type": "string", **more}


def _version(name: str, properties: Body, *, storage: bool = False, served: bool = True, **more: Any) -> Body:
    status = {"type": "object", "properties": {"phase": _text(), "replicas": {"type": "integer"}}}
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def _column(name: str) -> Body:
    return {"name": name.capitalize(), "type": "string", "jsonPath": f".spec.{name}"}


def _crd(*versions: Body) -> Body:
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": GADGETS, "scope": "Cluster", "names": names, "versions": list(versions)},
    }


_SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
_SIZE = {"type": "integer"}
_ALPHA = _version("v1alpha1", {"size": _SIZE, "old": _text(default="yes")})
_V1 = _version(
    "v1",
    {"size": {**_SIZE, "default": 1}, "color": _text(), "host": _text(default="here")},
    subresources={"status": {}, "scale": _SCALE},
    additionalPrinterColumns=[_column("color")],
    selectableFields=[{"jsonPath": ".spec.color"}],
)
_V2 = _version(
    "v2",
    {"size": {**_SIZE, "maximum": 100}, "color": _text(), "shape": _text(default="round")},
    subresources={"status": {}},
    additionalPrinterColumns=[_column("shape")],
    selectableFields=[{"jsonPath": ".spec.shape"}],
)


def crd(storage: str, *, unserved: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> Body:
    """The CRD of gadgets, in one of its states."""
    listed = [copy.deepcopy(version) for version in (_ALPHA, _V1, _V2) if version["name"] not in without]
    for version in listed:
        version |= {"storage": version["name"] == storage, "served": version["name"] not in unserved}
    return _crd(*listed)


def at(version: str, name: str = "", *, query: str = "", below: str = "") -> str:
    return f"/apis/{GADGETS}/{version}/gadgets" + (f"/{name}" if name else "") + (f"/{below}" if below else "") + query


def gadget(version: str, name: str, **spec: Any) -> Body:
    return {"apiVersion": f"{GADGETS}/{version}", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


def create(version: str, name: str, *, query: str = "", **spec: Any) -> Ask:
    return Ask(f"create {name} in {version}{query}", "POST", at(version, query=query), gadget(version, name, **spec))


def get(version: str, name: str = "", *, query: str = "", accept: str = "") -> Ask:
    what = f"{name or 'all'} in {version}{query}{' as a table' if accept else ''}"
    return Ask(what, "GET", at(version, name, query=query), accept=accept)


def patch(version: str, name: str, body: Any, media: str = MERGE, *, query: str = "", below: str = "") -> Ask:
    return Ask(
        f"{media} {name} in {version}{query} {below}", "PATCH", at(version, name, query=query, below=below), body, media
    )


VERSIONS = ("v1alpha1", "v1", "v2")
_EVERYWHERE = [get(version, name) for name in ("one", "two", "three") for version in VERSIONS]
_LISTED = [get(version, accept=accept) for version in VERSIONS for accept in ("", TABLE)]
_WATCHED = [
    Ask(f"a watch in {version}", "GET", at(version, query="?watch=true&timeoutSeconds=1")) for version in VERSIONS
]
_SEEN = [
    Ask(f"discovery of {path or 'the group'}", "GET", f"/apis/{GADGETS}{path}")
    for path in ("", "/v1alpha1", "/v1", "/v2")
]

SEVERAL: list[Ask | Until] = [
    Ask("the CRD", "POST", CRDS, crd("v1")),
    Until(get("v1"), 200),
    Until(get("v2"), 200),
    Until(get("v1alpha1"), 200),
    *_SEEN,
    create("v1", "one", color="red", size=3, host="there", a="lost", shape="lost"),
    create("v2", "two", color="blue", size=4, shape="square", host="lost"),
    create("v2", "large", size=1000),
    create("v1", "large", size=1000),
    create("v1alpha1", "three"),
    create("v2", "strict", query=STRICT, host="unknown"),
    create("v1", "strict", query=STRICT, shape="unknown"),
    *_EVERYWHERE,
    *_LISTED,
    *_WATCHED,
    get("v1", query="?fieldSelector=spec.color%3Dred"),
    get("v2", query="?fieldSelector=spec.shape%3Dround"),
    get("v2", query="?fieldSelector=spec.color%3Dred"),
    patch("v2", "one", {"spec": {"shape": "oval"}}),
    get("v1", "one"),
    patch("v1", "two", [{"op": "replace", "path": "/spec/host", "value": "new"}], JSON_PATCH),
    patch("v2", "two", [{"op": "remove", "path": "/spec/host"}], JSON_PATCH),
    patch("v1", "two", {"status": {"phase": "A"}}, below="status"),
    patch("v2", "two", {"status": {"phase": "B"}}, below="status"),
    patch("v1alpha1", "two", {"status": {"phase": "C"}}, below="status"),
    Ask("scale in v1", "GET", at("v1", "two", below="scale")),
    Ask("scale in v2", "GET", at("v2", "two", below="scale")),
    patch("v1", "two", {"spec": {"replicas": 9}}, below="scale"),
    *_EVERYWHERE,
    Ask("read to replace", "GET", at("v2", "two"), keep="two"),
    Ask(
        "replace in v2",
        "PUT",
        at("v2", "two"),
        {**gadget("v2", "two", size=5), "metadata": {"name": "two", "resourceVersion": "{two.rv}"}},
    ),
    Ask("replace in the wrong version", "PUT", at("v2", "two"), gadget("v1", "two", size=5)),
    get("v1", "two"),
]

_READ = Ask("read the CRD", "GET", f"{CRDS}/{NAME}", keep="crd")


def _replace(what: str, body: Body) -> list[Ask | Until]:
    named = {**body, "metadata": {"name": NAME, "resourceVersion": "{crd.rv}"}}
    return [Until(_READ, 200), Ask(what, "PUT", f"{CRDS}/{NAME}", named)]


MOVED: list[Ask | Until] = [
    *_replace("v2 is stored", crd("v2")),
    Until(_READ, 200, '"storedVersions":["v1","v2"]'),
    Until(patch("v1alpha1", "three", {"metadata": {"labels": {"moved": "yes"}}}), 200, absent='"host"'),
    *_EVERYWHERE,
    *_LISTED,
    *_WATCHED,
    create("v1", "four", color="green"),
    get("v2", "four"),
    get("v1", "four"),
    *_replace("v1 is not served", crd("v2", unserved=("v1",))),
    Until(get("v1"), 404),
    Until(Ask("", "GET", f"/apis/{GADGETS}"), 200, absent=f'"{GADGETS}/v1"'),
    *_SEEN,
    get("v2", "one"),
    get("v1", "one"),
    get("v1alpha1", "one"),
    *_replace("v1 is gone too early", crd("v2", without=("v1",))),
    Ask("delete in v2", "DELETE", at("v2", "large")),
    *(patch("v2", name, {}) for name in ("one", "two", "three", "four")),
    Ask("stored versions without v1", "PATCH", f"{CRDS}/{NAME}/status", {"status": {"storedVersions": ["v2"]}}, MERGE),
    *_replace("v1 is gone", crd("v2", without=("v1",))),
    Until(Ask("", "GET", f"/apis/{GADGETS}"), 200, absent=f'"{GADGETS}/v1"'),
    *_SEEN,
    Until(get("v2"), 200),
    get("v2"),
    get("v1alpha1"),
    Ask("delete all in v2", "DELETE", at("v2")),
    get("v1alpha1"),
]


def _aged(fields: Body) -> Body:
    names = {"plural": "ageds", "singular": "aged", "kind": "Aged", "listKind": "AgedList"}
    spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [_version("v1", fields, storage=True)]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"ageds.{GROUP}"},
        "spec": spec,
    }


_AGEDS = f"{APIS}/v1/ageds"
_AGED_CRD = f"{CRDS}/ageds.{GROUP}"
_OLD = {"apiVersion": f"{GROUP}/v1", "kind": "Aged", "metadata": {"name": "old"}, "spec": {"a": "x", "b": "y"}}
AGED: list[Ask | Until] = [
    Ask("the CRD without defaults", "POST", CRDS, _aged({"a": _text(), "b": _text()})),
    Until(Ask("", "GET", _AGEDS), 200),
    Ask("an object of old", "POST", _AGEDS, _OLD),
    Ask(
        "the CRD with defaults",
        "PATCH",
        _AGED_CRD,
        {"spec": {"versions": _aged({"a": _text(), "c": _text(default="z")})["spec"]["versions"]}},
        MERGE,
    ),
    Until(Ask("", "GET", f"{_AGEDS}/old"), 200, '"c":"z"'),
    Ask("the old object", "GET", f"{_AGEDS}/old"),
    Ask("the old object in a list", "GET", _AGEDS),
    Ask("the old object in a watch", "GET", f"{_AGEDS}?watch=true&timeoutSeconds=1"),
    Ask("nothing is changed", "PATCH", f"{_AGEDS}/old", {}, MERGE),
    Ask("a part is changed", "PATCH", f"{_AGEDS}/old", {"spec": {"a": "w"}}, MERGE),
    Ask("the old object again", "GET", f"{_AGEDS}/old"),
]

_TWINS = f"{APIS}/{{}}/twins"


def _twins() -> Body:
    """A CRD of two versions with the same fields, which differ in a default."""
    names = {"plural": "twins", "singular": "twin", "kind": "Twin", "listKind": "TwinList"}
    versions = [
        _version(name, {"a": _text(), "b": _text(), "c": _text(**more)}, storage=name == "v1")
        for name, more in (("v1", {}), ("v2", {"default": "z"}))
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"twins.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": versions},
    }


def _twin(what: str, version: str, query: str, media: str, **spec: Any) -> Ask:
    body = {"apiVersion": f"{GROUP}/{version}", "kind": "Twin", "metadata": {"name": "t"}, "spec": spec}
    return Ask(f"{what} in {version}", "PATCH", f"{_TWINS.format(version)}/t{query}", body, media)


def _apply(version: str, manager: str, *, force: str = "", **spec: Any) -> Ask:
    return _twin(f"{manager} applies {spec}{force}", version, f"?fieldManager={manager}{force}", APPLY, **spec)


MANAGED: list[Ask | Until] = [
    Ask("the CRD of twins", "POST", CRDS, _twins()),
    Until(Ask("", "GET", _TWINS.format("v1")), 200),
    Until(Ask("", "GET", _TWINS.format("v2")), 200),
    _apply("v1", "one", a="1", b="1"),
    _apply("v2", "two", c="2"),
    _apply("v2", "two", a="2"),
    _apply("v2", "two", force="&force=true", a="2"),
    _apply("v2", "one", b="1"),
    _apply("v1", "one", b="1"),
    _apply("v1", "one", c="1", b="1"),
    _twin("an update", "v1", "", MERGE, a="3"),
    _twin("an update of the same fields", "v2", "", MERGE, a="3", b="3"),
    _twin("an update of others", "v1", "", MERGE, c="3"),
    *(Ask(f"the twin in {version}", "GET", f"{_TWINS.format(version)}/t") for version in ("v1", "v2")),
]

_URL = {"url": "https://hooks.example.com/convert"}
_SERVICE = {"service": {"namespace": "a", "name": "b", "path": "/c"}}


def _webhook(client: Body, *versions: str) -> Body:
    return {"webhook": {"clientConfig": client, "conversionReviewVersions": list(versions)}}


def _hooked(client: Body, *versions: str) -> Body:
    return {"strategy": "Webhook", **_webhook(client, *versions)}


_CONVERSIONS: dict[str, Body] = {
    "a strategy that is none": {"strategy": "Other"},
    "a webhook without a strategy": _webhook(_URL, "v1"),
    "a webhook beside None": {"strategy": "None", **_webhook(_URL, "v1")},
    "no webhook": {"strategy": "Webhook"},
    "no address": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
    "two addresses": _hooked({**_URL, **_SERVICE}, "v1"),
    "a plain address": _hooked({"url": "http://user@a/b?c#d"}, "v1"),
    "a service without a name": _hooked({"service": {"namespace": "a", "name": "", "port": 99999, "path": "x"}}, "v1"),
    "a service": _hooked(_SERVICE, "v1"),
    "no version": _hooked(_URL),
    "strange versions": _hooked(_URL, "v2", "V", "v2"),
}


def _with(conversion: Body) -> Body:
    body = _aged({"a": _text()})
    return {**body, "spec": {**body["spec"], "conversion": conversion}}


CONVERSIONS: list[Ask | Until] = [
    Ask(what, "POST", f"{CRDS}?dryRun=All", _with(conversion)) for what, conversion in _CONVERSIONS.items()
]
