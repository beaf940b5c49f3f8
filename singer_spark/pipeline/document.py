"""Settings files in YAML: read, filled from the environment, taken key by key.

Every problem is noted instead of stopping at the first. A note names the key, never its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from typing_extensions import override

from singer_spark.errors import SettingsError
from singer_spark.text import parse_duration

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
        return {key: expand(item, _join(place, key), env, problems) for key, item in value.items()}
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


class Section:
    """One mapping of the file; what has not been taken at the end is an unknown key."""

    def __init__(self, values: Any, place: str, problems: list[str]) -> None:
        self.place = place
        self.problems = problems
        self._known: list[str] = []
        if not isinstance(values, Mapping):
            self.note("", "must be a mapping")
            values = {}
        self._values = values

    def note(self, key: str, problem: str) -> None:
        """Note what is wrong with a key."""
        self.problems.append(f"{_join(self.place, key) or 'file'}: {problem}")

    def take(self, key: str) -> Any:
        """Take a key's value as it is; None where it is not given."""
        self._known.append(key)
        return self._values.get(key)

    def section(self, key: str) -> Section:
        """Take a mapping; one that is not given is empty."""
        value = self.take(key)
        return Section({} if value is None else value, _join(self.place, key), self.problems)

    def text(self, key: str, *, required: bool = False) -> str:
        """Take a text; '' where it is not given."""
        value = self.take(key)
        if value is None:
            if required:
                self.note(key, "is required")
            return ""
        if not isinstance(value, str) or not value:
            self.note(key, "must be a text that is not empty; quote it")
            return ""
        return value

    def web_address(self, key: str, *, or_file: bool = False) -> str | None:
        """Take a URL that can be posted to, or a file's name where that is allowed."""
        value = self.text(key)
        if not value or (or_file and "://" not in value):
            return value or None
        if not _is_web_address(value):
            self.note(key, "must be a URL such as https://host:8080/path")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Take true or false."""
        value = self.take(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.note(key, "must be true or false")
        return default

    def choice(self, key: str, options: Sequence[str], *, default: str) -> str:
        """Take one of a few words."""
        value = self.take(key)
        if value is None or value in options:
            return value or default
        self.note(key, f"must be one of {', '.join(options)}")
        return default

    def number(
        self,
        key: str,
        *,
        whole: bool = False,
        most: float | None = None,
        default: float | None = None,
    ) -> float | None:
        """Take a number above zero; one that is given as null is None."""
        value = self.take(key)
        kinds = int if whole else (int, float)
        if value is None:
            return None if key in self._values else default
        fits = isinstance(value, kinds) and not isinstance(value, bool) and value > 0
        if not fits or (most is not None and value > most):
            kind = "a whole number" if whole else "a number"
            self.note(key, f"must be {kind} above 0" + (f", at most {most:g}" if most else ""))
            return None
        return float(value)

    def duration(self, key: str) -> int | None:
        """Take a duration, in seconds."""
        value = self.take(key)
        seconds = parse_duration(value)
        if value is not None and seconds is None:
            self.note(key, "must be a duration with its unit, such as 6h, 30m or 90s")
        return seconds

    def duration_or_off(self, key: str, *, default: int) -> int | None:
        """Take a duration, in seconds; None where it is turned off by 0."""
        value = self._values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value == 0:
            self._known.append(key)
            return None
        return self.duration(key) or default

    def close(self) -> None:
        """Note the keys that nobody took."""
        for key in self._values:
            if key not in self._known:
                self.note(str(key), f"unknown key; known here: {', '.join(self._known)}")


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    fits = parts.scheme in ("http", "https") and port != 0 and bool(parts.hostname)
    return fits and not re.search(r"[\s\x00-\x1f\x7f]", text)


def _join(place: str, key: object) -> str:
    return ".".join(part for part in (place, str(key)) if part)
