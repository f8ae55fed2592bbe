"""A kind is data: the facts that the API, the controllers and the simulated members need about one kind of object.

Built-in kinds are read from `api/kinds/*.yaml`; custom ones are made from CustomResourceDefinition objects, so a user
adds a kind by applying a CRD. Nothing here does I/O: `registry.py` has the kinds, and the composer of the parts fills
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]
Body = dict[str, Any]  # a whole object, or a part of one, as parsed JSON
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column of `kubectl get`. `priority` 0 = always, 1 = only with `-o wide`.

    `compute` names a function of api/engine/columns.py that makes the cell when no JSON path can (a pod's READY);
    `json_path` is then "". `missing` is the cell where the path leads to nothing. `cell` is the type of the cells where
    it is not that of the column: a kube-apiserver sends numbers in columns of text. A Name column comes first by
    itself, unless a column of the kind has the format "name".
    """

    name: str
    type: str  # string | integer | number | boolean | date
    json_path: str  # as in a CRD: .status.conditions[-1:].type
    priority: int = 0
    format: str = ""
    description: str = ""
    compute: str = ""
    missing: Any = None
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind at one served version.

    `schema` is a structural OpenAPI v3 schema of the whole object (with x-kubernetes-* extensions), or None: anything
    goes. `builtin` kinds take strategic merge patches, custom ones answer 415 to them, as a kube-apiserver does.
    `aliases` are other "group/version"s under which the same stored object is served: only `apiVersion` differs.
    `selectable` are field-selector paths beside metadata.name and metadata.namespace, e.g. "involvedObject.uid".
    `family` has the versions of a kind that has several; a kind is then one of them. `since`: what was stored at
    a later revision has been through this very schema; what is older has to be read by it.
    """

    group: str
    version: str
    kind: str
    resource: str  # plural
    singular: str
    namespaced: bool
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    builtin: bool = False
    schema: Schema | None = None
    columns: tuple[Column, ...] = ()
    status: bool = False  # has the /status subresource
    scale: Scale | None = None
    selectable: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    aliases: tuple[str, ...] = ()
    checked: bool = False  # code names the required fields (api/admission/kubernetes), and the schema is not asked
    versions: tuple[str, ...] = field(default=())  # all served versions, the preferred one first
    family: Family | None = field(default=None, compare=False, repr=False)
    since: int = field(default=0, compare=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def stored_as(self, body: Mapping[str, Any]) -> Kind:
        """The kind in the version in which this object is stored."""
        return self if self.family is None else self.family.kinds.get(body["apiVersion"], self)


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The versions of one kind. `kinds`: each by its apiVersion, also those that are not served. `storage`: the
    apiVersion in which objects are written. `webhook`: spec.conversion.webhook of the CRD; None where the versions have
    the same fields under the same names, and apiVersion alone is rewritten. `code`: the body, which is given away, in
    the version of an apiVersion; for a built-in kind whose versions have other fields."""

    storage: str
    kinds: Mapping[str, Kind]
    webhook: Mapping[str, Any] | None = None
    code: Callable[[str, Body], Body] | None = None
