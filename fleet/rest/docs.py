"""The documentation page: every route, parameter and field of the OpenAPI document, as one page of plain HTML.

It loads nothing, from here or elsewhere: the usual viewers fetch their scripts from the internet, where a hub often may
not go and which would see who reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Json = Mapping[str, Any]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc } h3 { font-family: ui-monospace, monospace; font-size: 1rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; vertical-align: top; padding: .25rem .75rem
.25rem 0; border-bottom: 1px solid #eee } code { font-family: ui-monospace, monospace; font-size: .9em }
.verb { display: inline-block; min-width: 4.5rem; font-weight: 700 }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e6e6e6 } td, th { border-color: #333 }
a { color: #8ab4f8 } }
"""


def page(document: Json, document_path: str) -> str:
    """The page of an OpenAPI 3.1 document, which is served at `document_path`."""
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style><h1>{escape(info['title'])}</h1>",
        *(f"<p>{_code(text)}</p>" for text in info.get("description", "").split("\n\n")),
        f"<p>The same for programs: <a href='{escape(document_path)}'>{escape(document_path)}</a></p><h2>Routes</h2>",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += _operation(method, path, operation)
    parts.append("<h2>Answers</h2>")
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        parts += _schema(name, schema)
    return "\n".join(parts) + "</html>\n"


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    title = f"<span class=verb>{escape(method.upper())}</span> {escape(path)}"
    yield f"<h3 id='{escape(operation.get('operationId', ''))}'>{title}</h3>"
    yield f"<p><b>{escape(operation.get('summary', ''))}.</b> {_code(operation.get('description', ''))}</p>"
    rows = [
        (
            f"<code>{escape(parameter['name'])}</code> ({escape(parameter['in'])})",
            _type(parameter.get("schema", {})) + _bounds(parameter.get("schema", {})),
            _code(parameter.get("description") or parameter.get("schema", {}).get("description", "")),
        )
        for parameter in operation.get("parameters", ())
    ]
    body = operation.get("requestBody")
    if body:
        rows.append(("body", escape(", ".join(body.get("content", {}))), _code(body.get("description", ""))))
    for status, response in operation.get("responses", {}).items():
        for content in response.get("content", {}).values():
            says = "answer" if status == "default" else f"answer {escape(status)}"
            rows.append((says, _type(content.get("schema", {})), _code(response.get("description", ""))))
    yield _table(rows)


def _schema(name: str, schema: Json) -> Iterator[str]:
    yield f"<h3 id='{escape(name)}'>{escape(name)}</h3><p>{_code(schema.get('description', ''))}</p>"
    if "enum" in schema:
        yield f"<p>{_type(schema)}</p>"
    rows = [
        (f"<code>{escape(field)}</code>", _type(inner), _code(inner.get("description", "")))
        for field, inner in schema.get("properties", {}).items()
    ]
    yield _table(rows)


def _table(rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    return "<table>" + "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows) + "</table>"


def _type(schema: Json) -> str:
    """A schema in few words, with links to what it names."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return f"<a href='#{escape(name)}'>{escape(name)}</a>"
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return ", ".join(f"<code>{escape(str(value))}</code>" for value in values if value != "")
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if schema.get("type") == "array":
        return "list of " + _type(schema.get("items", {}))
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return "map of " + _type(values)
    return escape(str(schema.get("type", "any")))


def _bounds(schema: Json) -> str:
    """The value of a parameter that is not given, and its limits."""
    said = [
        f"{name} {schema[key]}" for key, name in (("default", "default"), ("maximum", "at most")) if schema.get(key)
    ]
    return f" ({escape(', '.join(said))})" if said else ""


def _code(text: str) -> str:
    """Text with `names` set as code, and white space as it falls."""
    pieces = escape(" ".join(text.split())).split("`")
    return "".join(piece if index % 2 == 0 else f"<code>{piece}</code>" for index, piece in enumerate(pieces))
