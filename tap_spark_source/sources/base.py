"""What every kind of source can do, and how its errors reach the user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from singer_spark.errors import DataError, SettingsError, SingerSparkError, SourceError
from singer_spark.typemap import to_json_schema
from tap_spark_source.settings import Settings
from tap_spark_source.table import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

OUT_OF_RANGE = "is outside the years 1 to 9999"
TOO_FINE = "is finer than a microsecond"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The window of one read as the source applies it: texts that Spark formatted, inclusive."""

    key: Column
    lower: str | None
    upper: str | None
    nulls: bool


class Source(Protocol):
    """A place with tables."""

    def discover(self) -> list[Table]:
        """Describe the tables that the settings ask for."""

    def find(self, stream: str, *, schema: str | None, name: str | None) -> Table | None:
        """Describe the one table of a stream, or return None where it is gone."""

    def frame(
        self,
        table: Table,
        columns: Sequence[Column],
        *,
        where: str | None = None,
        bounds: Bounds | None = None,
    ) -> DataFrame:
        """Return the rows of a table, filtered by the source itself."""

    def high_mark(self, table: Table, key: Column, *, where: str | None) -> DataFrame:
        """Return one row whose column `mark` is the highest value of the key."""

    def count_nulls(self, table: Table, key: Column, *, where: str | None) -> int:
        """Count the rows whose key is NULL."""


def describe_column(
    field: T.StructField,
    *,
    singer_decimal: bool,
    native: str = "",
    read: str | None = None,
    parse: str | None = None,
    hint: Mapping[str, Any] | None = None,
) -> Column:
    """Describe a column of a loaded frame; the hint adds to its JSON Schema."""
    schema = to_json_schema(field.dataType, singer_decimal=singer_decimal)
    if schema.get("x-sql-datatype") and schema["type"] == ["string", "null"]:
        schema["x-sql-datatype"] = _carried(schema["x-sql-datatype"])
    return Column(
        name=field.name,
        datatype=field.dataType.simpleString(),
        schema={**schema, **(hint or {})},
        native=native,
        read=read,
        parse=parse,
    )


def _carried(datatype: str) -> str:
    """Name the type that arrives: what has no JSON form of its own travels as text."""
    known = ("string", "binary", "date", "timestamp", "timestamp_ntz")
    return datatype if datatype in known or datatype.startswith("decimal") else "string"


@contextmanager
def source_errors(settings: Settings, what: str) -> Iterator[None]:
    """Turn Spark's and the drivers' errors into one line that says what, where and what next."""
    try:
        yield
    except SingerSparkError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        reason = masked(_reason(error), settings.password)
        raise _translated(reason, f"{what} ({masked(settings.url, settings.password)})") from error


def _translated(reason: str, where: str) -> SingerSparkError:
    if re.search(r"No suitable driver|ClassNotFoundException|DATA_SOURCE_NOT_FOUND", reason):
        return SettingsError(
            f"cannot read {where}: its driver is missing ({reason}); name it in spark_packages or "
            "spark_jars, and its class in source_options driver"
        )
    if re.search(rf"SQLSTATE: 22|{OUT_OF_RANGE}|{TOO_FINE}|Bad value for type|overflow", reason):
        return DataError(
            f"cannot read {where}: a value does not fit its type: {reason}; correct it, or "
            "deselect its column"
        )
    return SourceError(f"cannot read {where}: {reason}; check that it is there and may be read")


def _reason(error: BaseException) -> str:
    """Return the message of the innermost cause, which names the actual trouble."""
    texts = [str(error)]
    cause = getattr(error, "_cause", None) or error.__cause__
    while cause is not None:
        texts.append(str(cause))
        cause = getattr(cause, "_cause", None) or cause.__cause__
    causes = re.findall(r"^(?:Caused by|): ([\w.$]+): *(.*)$", "\n".join(texts), re.MULTILINE)
    for kind, text in reversed(causes):
        if text.strip():
            return f"{text.strip()} [{kind}]" if "NotFound" in kind else text.strip()
    first = [text.partition("JVM stacktrace:")[0].strip() for text in texts]
    return " ".join(next((text for text in reversed(first) if text), "no reason given").split())


def masked(text: str, *secrets: str | None) -> str:
    """Hide passwords, as given and as URLs carry them."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    text = re.sub(r"(?i)(password|pwd|secret|token|key)=[^&;\s]+", r"\1=***", text)
    return re.sub(r"//[^/@\s]+@", "//***@", text)
