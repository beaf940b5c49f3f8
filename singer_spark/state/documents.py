"""JSON documents of pipelines in an object store; what cannot be read is told in one line.

Documents of our own carry the number of their `schema`, which is taken off again when they are
read. `state.json` is the tap's and carries none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn, final

from singer_spark import digits
from singer_spark.errors import SettingsError, StateError
from singer_spark.state.objects import Expect, ObjectStore, Stored

PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")  # as Meltano's state ids, too
SCHEMA = 1  # of meta, run records, summaries; raised when an older version would misread them


class DamagedError(StateError):
    """A document is not what belongs there. Repair it, or delete it."""

    def __init__(self, place: str, key: str) -> None:
        name, _, file = key.partition("/")
        ways = "repair it, or delete it to start without it"
        if file == "generation.json":
            ways = (
                f"take over what the tables have (singer-spark state recover {name}), or give the "
                f"state (singer-spark state set {name} FILE)"
            )
        elif file in ("state.json", "meta.json"):
            ways = (
                f"give another (singer-spark state set {name} FILE), or start without it "
                f"(singer-spark state delete {name})"
            )
        super().__init__(f"{place} is damaged (not the JSON object that belongs there); {ways}")


class NewerSchemaError(StateError):
    """A newer singer-spark wrote this. Upgrade this one."""

    def __init__(self, place: str, schema: object) -> None:
        super().__init__(
            f"{place} was written by a newer singer-spark (schema {schema}, known here is "
            f"{SCHEMA}); upgrade with: pip install --upgrade singer-spark"
        )


def key_of(name: str, file: str) -> str:
    """Name a pipeline's document; an unsafe name reaches no file."""
    if not PIPELINE_NAME.fullmatch(name):
        raise SettingsError(
            "name: a pipeline's name holds letters, digits, '.', '_', ':' and '-' only "
            "and starts with a letter or a digit"
        )
    return f"{name}/{file}"


@final
class Documents:
    """JSON objects under keys."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects

    def write(self, key: str, value: Mapping[str, Any], expected: str | Expect) -> str:
        """Write a document over the expected version and return the new tag."""
        try:
            text = digits.dumps(value, indent=2)
        except (TypeError, ValueError) as error:
            raise StateError(
                f"{self.objects.locate(key)}: the state holds a value that JSON cannot carry; "
                "look at the bookmarks that the tap writes"
            ) from error
        return self.objects.write(key, text.encode() + b"\n", expected)

    def write_own(self, key: str, value: Mapping[str, Any], expected: str | Expect) -> str:
        """Write a document of our own, with its schema."""
        return self.write(key, {"schema": SCHEMA, **value}, expected)

    def parse(self, key: str, stored: Stored | None) -> dict[str, Any]:
        """Read what is stored as a JSON object; nothing stored is an empty one."""
        try:
            value = {} if stored is None else digits.loads(stored.body)
        except ValueError:
            value = None
        return value if isinstance(value, dict) else self.refuse(key)

    def parse_own(self, key: str, stored: Stored | None) -> dict[str, Any]:
        """Read a document of our own; one of a newer schema is refused rather than misread."""
        value = self.parse(key, stored)
        schema = value.pop("schema", SCHEMA)
        if not isinstance(schema, int):
            self.refuse(key)
        if schema > SCHEMA:
            raise NewerSchemaError(self.objects.locate(key), schema)
        return value

    def refuse(self, key: str) -> NoReturn:
        """Tell that a document is damaged."""
        raise DamagedError(self.objects.locate(key), key)
