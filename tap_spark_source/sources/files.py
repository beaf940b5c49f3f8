"""Folders of tables in every format that Spark reads, on any storage that it reaches."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from typing_extensions import override

from singer_spark.errors import SourceError
from singer_spark.names import quote
from singer_spark.types import to_ddl
from tap_spark_source.dialects.reading import WITHOUT_DAY, exact_time
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.table import Table, is_name, is_wanted
from tap_spark_source.settings import Settings, absolute_path
from tap_spark_source.sources.base import Place, source_errors
from tap_spark_source.sources.lake import LakeSource

_FAIL_FAST = {"mode": "FAILFAST"}
# Options that keep values as they are; the user's own come after them.
_DEFAULTS = {
    # Headers are compared with the columns, or a file with another order would be misread.
    "csv": {"header": "true", "inferSchema": "true", "enforceSchema": "false"} | _FAIL_FAST,
    "json": {"prefersDecimal": "true"} | _FAIL_FAST,
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
}
# With these, times of CSV are what the user says.
_TIME_OPTIONS = {"mode", "timestampformat", "timestampntzformat", "timezone"}
_TIMES = ("timestamp", "timestamp_ntz")
_ENDINGS = {"text": "te?xt"}
_HALF_WRITTEN = (".tmp", ".temp", ".part", ".partial", ".inprogress", ".filepart", "._COPYING_")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file of a table: its name below the table's folder, and when it was last written.

    `label` is what Spark calls the file when it tells where a row came from. A file of the future
    has a time that had not come when the files were listed.
    """

    name: str
    path: str
    modified: str
    label: str = ""
    is_future: bool = False


class FileSource(LakeSource):
    """The tables under one folder: a sub-folder or a file each."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings)
        # The others have no statistics, so that each slice would read every file again.
        self.can_slice = settings.kind in ("delta", "parquet", "orc")
        self._root = absolute_path(settings.url.partition(":")[2])
        self._paths: dict[str, str] | None = None
        self._places: dict[str, str] = {}
        self._complete: dict[str, list[FoundFile]] = {}

    @override
    def discover(self) -> list[Table]:
        patterns = self._settings.tables
        names = {name for name in patterns if is_name(name)}
        found = {name: self.find(Place(stream=name)) for name in sorted(names)}
        if missing := [name for name, table in found.items() if table is None]:
            raise SourceError(f"no table {', '.join(missing)} in {self._root}; correct tables")
        if len(names) < len(set(patterns)):
            for name, path in self._listed().items():
                if name not in found and is_wanted(name, patterns):
                    found[name] = self._table(name, path)
        return [table for table in found.values() if table is not None]

    @override
    def find(self, place: Place) -> Table | None:
        wanted = place.name or place.stream
        path = f"{self._root}/{wanted}" if self._is_there(wanted) else self._listed().get(wanted)
        return self._table(wanted, path) if path else None

    @override
    def sql_name(self, table: Table) -> str:
        return f"delta.{quote(self._places[table.stream])}"

    def files_of(self, table: Table) -> list[FoundFile]:
        """Return the files that the table was described by; later ones are the next run's."""
        return self._complete[table.stream]

    def wanted_rows_of(self, plan: ReadPlan, files: Sequence[FoundFile]) -> DataFrame:
        """Return the rows of some files that a plan asks for."""
        stream = plan.table.stream
        known, root = self._frames[stream].schema, self._places[stream]
        found = self._load([file.path for file in files], root=root, schema=known)
        return self.wanted_rows(found, plan)

    def count_by_file(self, plan: ReadPlan, files: Sequence[FoundFile]) -> list[int]:
        """Count the rows of a plan in each of some files."""
        rows = self.wanted_rows_of(plan, files)
        found = rows.groupBy("_metadata.file_path").count().toArrow()
        counts = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
        return [counts.get(file.label, 0) for file in files]

    def _table(self, name: str, path: str) -> Table:
        self._places[name] = path
        with source_errors(self._settings, name):
            paths = [path]
            if self._settings.of_stream(name).new_files:
                self._complete[name] = self._complete_files(path)
                paths = [file.path for file in self._complete[name]]
            if not paths:
                raise SourceError(f"{name}: {path} holds no complete file yet; wait for one")
            columns = self._columns(name, self._load(paths, root=path))
        return Table(stream=name, name=name, columns=columns)

    def _load(
        self, paths: Sequence[str], *, root: str, schema: T.StructType | None = None
    ) -> DataFrame:
        kind = self._settings.kind
        options = {**_DEFAULTS.get(kind, {}), **self._settings.options}
        reader = self.spark.read.format(kind).options(**options)
        if kind == "delta":
            return reader.load(root)
        if schema is not None:
            reader = reader.schema(schema)
        if [_bare(path) for path in paths] != [_bare(root)]:
            # Folders such as day=1 between the table and its files are columns.
            reader = reader.option("basePath", root)
        # A path is taken as a pattern.
        globs = [_globbed(path) for path in paths]
        found = reader.load(globs)
        given = {name.lower() for name in self._settings.options}
        has_times = any(to_ddl(field.dataType) in _TIMES for field in found.schema.fields)
        if kind != "csv" or given & _TIME_OPTIONS or not has_times:
            return found
        texts, items = _times_as_texts(found.schema)
        return reader.schema(texts).load(globs).selectExpr(*items)

    def _complete_files(self, path: str) -> list[FoundFile]:
        modified = "date_format(modificationTime, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx\") as modified"
        label = "_metadata.file_path as label"
        # Before the list is made: what is written meanwhile is the next run's.
        now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        found = self._files(_globbed(path), "path", modified, label).toArrow().to_pylist()
        files = [
            FoundFile(name=_name_below(path, row["path"]), is_future=row["modified"] > now, **row)
            for row in found
        ]
        return [file for file in files if is_complete(file.name)]

    def _is_there(self, name: str) -> bool:
        """Say whether a folder of that name exists, without listing its siblings."""
        try:
            return bool(self._files(_globbed(f"{self._root}/{name}")).take(1))
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return False
            with source_errors(self._settings, name):
                raise

    def _listed(self) -> dict[str, str]:
        """Return the paths of all tables by name."""
        if self._paths is None:
            with source_errors(self._settings, "the folder"):
                paths = self._files(f"{_globbed(self._root)}/*").toArrow().column(0).to_pylist()
            root = _bare(self._root) + "/"
            entries = {_bare(path).removeprefix(root).split("/")[0] for path in paths}
            kind = self._settings.kind
            # A table is named after its folder, or its file without what tells the format.
            ending = re.compile(rf"\.({_ENDINGS.get(kind, kind)})(\.\w+)?$", re.IGNORECASE)
            names = defaultdict(list)
            for entry in sorted(entries):
                names[ending.sub("", entry)].append(entry)
            if clashes := [", ".join(group) for group in names.values() if len(group) > 1]:
                raise SourceError(f"{self._root}: one name for {'; '.join(clashes)}; rename one")
            self._paths = {name: f"{self._root}/{group[0]}" for name, group in names.items()}
        return self._paths

    def _files(self, glob: str, *columns: str) -> DataFrame:
        """List files by Spark, which sees what the executors will read."""
        if self._settings.kind == "delta":
            glob += "/_delta_log/*"
        reader = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        return reader.load(glob).selectExpr(*(columns or ["path"]))


def is_complete(name: str) -> bool:
    """Say whether a file can be read: it is neither hidden nor still being written."""
    parts = name.split("/")
    hidden = any(part[0] == "." or (part[0] == "_" and "=" not in part) for part in parts)
    return not hidden and not name.endswith(_HALF_WRITTEN)


def _times_as_texts(schema: T.StructType) -> tuple[str, list[str]]:
    """Return the schema to read by and what to select: Spark's reader would cut fine times."""
    columns, items = [], []
    for field in schema.fields:
        name, datatype = quote(field.name), to_ddl(field.dataType)
        is_time = datatype in _TIMES
        columns.append(f"{name} {'string' if is_time else datatype}")
        items.append(f"{_time(name, datatype)} as {name}" if is_time else name)
    return ", ".join(columns), items


def _time(text: str, datatype: str) -> str:
    """Parse a time of a day that is told: Spark takes 10:30 for half past ten of today."""
    dayless = f"raise_error(concat({text}, ' {WITHOUT_DAY}'))"
    exact = exact_time(datatype).replace("{}", text)
    return f"if({text} rlike '^ *T?[0-9]{{1,2}}:', {dayless}, {exact})"


def _bare(path: str) -> str:
    """Return a path without its scheme and host, which Spark spells in its own way."""
    return re.sub(r"^\w+:(//[^/]*)?", "", path)


def _name_below(root: str, path: str) -> str:
    """Name a file below the folder of its table; a table that is one file has the file's name."""
    top, file = _bare(root), _bare(path)
    return file.rpartition("/")[2] if file == top else file.removeprefix(f"{top}/")


def _globbed(path: str) -> str:
    """Write a path as a pattern that matches it alone."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
