"""The API's own page: what can be asked and what is answered, made from its OpenAPI description, without scripts."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
:root{color-scheme:light dark}
h2{font-size:1.05rem;margin:2rem 0 .3rem}code{overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25rem .8rem .25rem 0;vertical-align:top;border-bottom:1px solid #8886}"""
_FIRST = (
    "Every request carries Authorization: Bearer TOKEN; administrators make tokens under Settings, Programs. "
    'Errors are {"error": sentence}. While a case waits for people its state is in_review and nothing is said of what '
    "the agents made of it. The machine-readable description is at /api/v1/openapi.json."
)


def reference_html(openapi: Mapping[str, Any]) -> str:
    """The page as HTML."""
    parts = "".join(
        _operation(method, path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    )
    schemas = "".join(_schema(name, schema) for name, schema in openapi["components"]["schemas"].items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Second Look API</title>'
        f"<style>{_STYLE}</style>"
        f"</head><body><h1>Second Look API</h1><p>{escape(_FIRST)}</p>{parts}<h1>Bodies</h1>{schemas}</body></html>"
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    fields = [
        (one["name"], one["in"], "needed" if one.get("required") else "") for one in operation.get("parameters", ())
    ]
    answers = ", ".join(operation["responses"])
    words = escape(operation.get("description", ""))
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{words}</p>{_table(fields)}<p>Answers: {answers}</p>"
    )


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    needed = set(schema.get("required", ()))
    fields = [(key, _kind(one), "needed" if key in needed else "") for key, one in schema.get("properties", {}).items()]
    return f"<h2>{escape(name)}</h2><p>{escape(schema.get('description', ''))}</p>{_table(fields)}"


def _kind(one: Mapping[str, Any]) -> str:
    return " or ".join(_kinds(one)) or "any"


def _kinds(one: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in one:
        yield str(one["$ref"]).rpartition("/")[2]
    elif "enum" in one:
        yield ", ".join(map(str, one["enum"]))
    elif "type" in one:
        yield str(one["type"])
    for other in one.get("anyOf", ()):
        yield from _kinds(other)


def _table(rows: list[tuple[str, str, str]]) -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{cells}</table>" if rows else ""
