"""Writes the tables in README.md, meltano.yml and docs/types.md from the code.

python -m tools.docs            names the files whose tables are out of date
python -m tools.docs --write    rewrites their tables

A table stands between a line with its name, `<!-- settings:tap -->` or `# settings:tap`, and a
line with `/settings`; what is around it is written by hand.
"""

from __future__ import annotations

import copy
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import yaml
from pyspark.sql import types as T
from singer_sdk.plugin_base import PluginBase

from singer_spark.types import to_json_schema, to_spark_type
from tap_spark_source.tap import TapSparkSource
from target_spark_delta.target import TargetSparkDelta

ROOT = Path(__file__).parents[1]
PLUGINS: dict[str, type[PluginBase]] = {"tap": TapSparkSource, "target": TargetSparkDelta}
KINDS = {"number": "decimal"}  # what Meltano calls otherwise than JSON Schema

JSON_SCHEMAS: list[dict[str, Any]] = [
    {"type": "boolean"},
    {"type": "integer"},
    {"type": "integer", "maximum": 2**64},
    {"type": "number"},
    {"type": "number", "multipleOf": 0.01},
    {"type": "number", "multipleOf": 1e-38, "minimum": -1e62, "maximum": 1e62},
    {"type": "string"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "time"},
    {"type": "string", "format": "singer.decimal", "precision": 20, "scale": 5},
    {"type": "string", "format": "singer.decimal"},
    {"type": "string", "contentEncoding": "base64"},
    {"type": "string", "x-sql-datatype": "binary"},
    {"type": "string", "format": "date-time", "x-sql-datatype": "timestamp_ntz"},
    {"type": "number", "x-sql-datatype": "decimal(20,5)"},
    {"type": "integer", "x-sql-datatype": "NUMBER(10)"},
    {"type": "object", "properties": {"id": {"type": "integer"}, "tag": {"type": "string"}}},
    {"type": "object"},
    {"type": "array", "items": {"type": "number"}},
    {"type": "array"},
    {"type": ["integer", "string"]},
    {},
]
SPARK_TYPES: list[T.DataType] = [
    T.BooleanType(),
    T.ByteType(),
    T.ShortType(),
    T.IntegerType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.DecimalType(20, 5),
    T.StringType(),
    T.BinaryType(),
    T.DateType(),
    T.TimestampType(),
    T.TimestampNTZType(),
    T.ArrayType(T.LongType()),
    T.MapType(T.StringType(), T.LongType()),
    T.StructType([T.StructField("id", T.LongType())]),
]


def settings_of(plugin: type[PluginBase]) -> dict[str, dict[str, Any]]:
    """Return every setting of a plugin, the SDK's own included."""
    schema = copy.deepcopy(plugin.config_jsonschema)
    plugin.append_builtin_config(schema)
    required = schema.get("required", [])
    return {name: {**s, "required": name in required} for name, s in schema["properties"].items()}


def settings_table(plugin: type[PluginBase]) -> str:
    """Return the settings of a plugin as a Markdown table."""
    return _markdown(
        ("setting", "type", "default", "meaning"),
        (
            (f"`{name}`", _type(setting), _default(setting), _meaning(setting))
            for name, setting in settings_of(plugin).items()
        ),
    )


def meltano_capabilities(plugin: type[PluginBase]) -> str:
    """Return the capabilities of a plugin as Meltano wants them."""
    return _yaml({"capabilities": [capability.value for capability in plugin.capabilities]})


def meltano_settings(plugin: type[PluginBase]) -> str:
    """Return the settings of a plugin as Meltano wants them."""
    settings = settings_of(plugin)
    required = [name for name, setting in settings.items() if setting["required"]]
    described = [_meltano_setting(name, setting) for name, setting in settings.items()]
    return _yaml({"settings_group_validation": [required], "settings": described})


def types_from_json() -> str:
    """Return which Spark type a JSON Schema property becomes."""
    rows = ((_code(schema), f"`{to_spark_type(schema).simpleString()}`") for schema in JSON_SCHEMAS)
    return _markdown(("JSON Schema", "Spark and Delta"), rows)


def types_to_json() -> str:
    """Return the JSON Schema property that a Spark type becomes."""
    rows = ((f"`{kind.simpleString()}`", _code(to_json_schema(kind))) for kind in SPARK_TYPES)
    return _markdown(("Spark", "JSON Schema"), rows)


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {f"settings:{key}": partial(settings_table, it) for key, it in PLUGINS.items()},
    "meltano.yml": {
        **{f"capabilities:{key}": partial(meltano_capabilities, it) for key, it in PLUGINS.items()},
        **{f"settings:{key}": partial(meltano_settings, it) for key, it in PLUGINS.items()},
    },
    "docs/types.md": {"types:from-json": types_from_json, "types:to-json": types_to_json},
}


def rendered(file: str) -> str:
    """Return a file's text with its tables as the code has them."""
    text = (ROOT / file).read_text(encoding="utf-8")
    for name, table in TABLES[file].items():
        kind = name.partition(":")[0]
        marked = re.compile(
            rf"^(?P<indent> *)(?P<begin>(?:<!--|#) {name}(?: -->)?\n)"
            rf".*?(?P<end>^ *(?:<!--|#) /{kind}(?: -->)?\n)",
            re.DOTALL | re.MULTILINE,
        )
        match = marked.search(text)
        if match is None:
            raise click.ClickException(f"{file} has no place for the table {name}")
        body = textwrap.indent(table(), match["indent"])
        new = f"{match['indent']}{match['begin']}{body}{match['end']}"
        text = text[: match.start()] + new + text[match.end() :]
    return text


@click.command()
@click.option("--write", is_flag=True, help="Rewrite the tables.")
def main(*, write: bool) -> None:
    """Compare the tables in the documents with the code."""
    stale = [file for file in TABLES if rendered(file) != (ROOT / file).read_text(encoding="utf-8")]
    for file in stale:
        if write:
            (ROOT / file).write_text(rendered(file), encoding="utf-8")
        click.echo(f"{file}: tables {'rewritten' if write else 'out of date; run make fmt'}")
    if stale and not write:
        raise SystemExit(1)


def _kind(setting: Mapping[str, Any]) -> str:
    return str(next(kind for kind in setting["type"] if kind != "null"))


def _type(setting: Mapping[str, Any]) -> str:
    return f"secret {_kind(setting)}" if setting.get("secret") else _kind(setting)


def _default(setting: Mapping[str, Any]) -> str:
    if setting["required"]:
        return "required"
    default = setting.get("default")
    if default is None:
        return ""
    return f"`{default}`" if isinstance(default, str) else _code(default)


def _meaning(setting: Mapping[str, Any]) -> str:
    """Return the first paragraph of a description, and the choices that it leaves out."""
    text = " ".join(setting["description"].strip().split("\n\n")[0].split())
    missing = [f"`{choice}`" for choice in setting.get("enum", []) if str(choice) not in text]
    choices = f" One of {', '.join(missing)}." if missing else ""
    return f"{text}{choices}"


def _meltano_setting(name: str, setting: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "kind": KINDS.get(_kind(setting), _kind(setting))}
    if setting.get("format") == "date-time":
        described["kind"] = "date_iso8601"
    if choices := setting.get("enum"):
        options = [{"label": str(choice), "value": choice} for choice in choices]
        described |= {"kind": "options", "options": options}
    if setting.get("secret"):
        described["sensitive"] = True
    return {**described, "label": setting.get("title") or name, "description": _meaning(setting)}


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [list(head), ["---"] * len(list(head)), *escaped]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)


def _code(value: object) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


if __name__ == "__main__":
    main()
