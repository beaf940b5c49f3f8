"""Pipeline files as YAML: read, filled from the environment, checked against `schema.json`.

Every problem is noted instead of stopping at the first. A note names the key, never its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml
from typing_extensions import override

from singer_spark.errors import SettingsError
from singer_spark.pipeline.cron import is_cron

if TYPE_CHECKING:
    import jsonschema_rs

VARIABLE = re.compile(r"\$(\$?)\{([^}]*)\}")


class _Loader(yaml.SafeLoader):
    """YAML whose `off` and `2026-01-31` stay the texts they are, as in YAML 1.2."""

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key given twice, of which YAML would silently drop one."""
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        if len(set(map(str, keys))) < len(keys):
            raise yaml.constructor.ConstructorError(problem_mark=node.start_mark)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")
)


def read_document(path: Path) -> Any:
    """Read a YAML or JSON file; says where it is wrong, never what stands there."""
    try:
        if path.suffix == ".json":
            return json.loads(path.read_bytes())
        return yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506, a SafeLoader
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read ({error.strerror}); check its name and its permissions"
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" near line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SettingsError(
            f"{path}: not valid{where}; quote values that hold special characters "
            "and give each key once"
        ) from None


def expand(value: Any, place: str, env: Mapping[str, str], problems: list[str]) -> Any:
    """Replace ${NAME} in every text by the environment's value; $${NAME} is a literal ${NAME}."""
    if isinstance(value, Mapping):
        return {key: expand(item, join(place, key), env, problems) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, f"{place}[{n}]", env, problems) for n, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        if match[2] not in env:
            problems.append(f"{place}: environment variable {match[2]} is not set")
        return env.get(match[2], match[0])

    return VARIABLE.sub(fill, value)


@cache
def _schema() -> tuple[dict[str, Any], jsonschema_rs.Draft202012Validator]:
    import jsonschema_rs  # only who reads a pipeline file waits for it

    schema = json.loads(files("singer_spark.pipeline").joinpath("schema.json").read_bytes())
    formats = {
        "cron": is_cron,
        "web-address": is_web_address,
        "web-address-or-file": lambda text: "://" not in text or is_web_address(text),
    }
    validator = jsonschema_rs.Draft202012Validator(schema, formats=formats, validate_formats=True)
    return schema, validator


def schema_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Find what in a pipeline file does not fit `schema.json`."""
    schema, validator = _schema()
    try:
        errors = list(validator.iter_errors(document))
    except (TypeError, ValueError):
        yield "file: holds a value that JSON cannot carry; quote it"
        return
    for error in errors:
        yield from _explain(error, schema)


def _explain(error: jsonschema_rs.ValidationError, root: dict[str, Any]) -> Iterator[str]:
    """Name the key and the rule it breaks: the `problem` that stands nearest to the rule."""
    place = ".".join(str(part) for part in error.instance_path if isinstance(part, str))
    *path, keyword = error.schema_path
    schema: Any = root
    kind: Any = error.kind
    problem = ""
    for step in path:
        is_link = step == "$ref"
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]] if is_link else schema[step]
        problem = schema.get("problem", problem)
    if keyword == "required":
        yield f"{join(place, kind.property)}: is required"
    elif keyword == "additionalProperties":
        known = ", ".join(schema["properties"])
        for key in kind.unexpected:
            yield f"{join(place, key)}: unknown key; known here: {known}"
    elif keyword == "enum":
        yield f"{place}: must be one of {', '.join(schema['enum'])}"
    else:
        yield f"{place or 'file'}: {problem or 'must be a mapping'}"


def is_web_address(text: str) -> bool:
    """Say whether a text is a URL that can be posted to."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    fits = parts.scheme in ("http", "https") and port != 0 and bool(parts.hostname)
    return fits and not re.search(r"[\s\x00-\x1f\x7f]", text)


def join(place: str, key: object) -> str:
    """Name a key by its place in the file."""
    return ".".join(part for part in (place, str(key)) if part)
