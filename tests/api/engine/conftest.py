"""The kinds that stories about objects are told with: one that is built in, and one that a user brings."""

from __future__ import annotations

from api.engine.kind import Kind

NAMESPACE = Kind(
    "",
    "v1",
    "Namespace",
    "namespaces",
    "namespace",
    False,
    "NamespaceList",
    builtin=True,
    status=True,
    schema={
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"finalizers": {"type": "array", "items": {"type": "string"}}}},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    },
)
WIDGET = Kind(
    "example.com",
    "v1",
    "Widget",
    "widgets",
    "widget",
    True,
    "WidgetList",
    status=True,
    aliases=("old.example.com/v1",),
    schema={
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string"},
                                "weight": {"type": "integer"},
                                "words": {"type": "array", "items": {"type": "string"}},
                            },
                        },
                    },
                    "marks": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "note": {"type": "string", "nullable": True},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
)
