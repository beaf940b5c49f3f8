"""What becomes of a stream's rows, as its way of reading and its load method go together. Pure.

`check` and `run --dry-run` say it before a run; the target refuses or does it in the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from singer_spark.assignment import EVERY_STREAM, REPLACING
from singer_spark.pipeline import Pipeline
from singer_spark.protocol import CHANGES_ONLY, RANGE, Scope, scope_of

FULL_TABLE, INCREMENTAL, LOG_BASED = "FULL_TABLE", "INCREMENTAL", "LOG_BASED"
APPEND, UPSERT, DELETE_INSERT = "append-only", "upsert", "delete-insert"
_LOADS = ("load_method", "key_properties", "range_column")
_OTHER_KEY = "__key_properties__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """How one stream is read and loaded.

    Args:
        method: The replication method; None where nobody says.
        keys: The columns that rows are merged by.
        bookmark: The replication key.
        scope: Which rows are read; None where the tap does not say.
        load_method: As the target's settings say; None where it is not ours.
        range_column: What delete-insert replaces by.
    """

    method: str | None = None
    keys: Sequence[str] = ()
    bookmark: str | None = None
    scope: Scope | None = None
    load_method: str | None = None
    range_column: str | None = None

    @property
    def summary(self) -> str:
        """The method, the keys and the load method in a line."""
        read = self.method or "read as the tap does"
        by = f" by {self.bookmark}" if self.bookmark else ""
        keys = f"key {', '.join(self.keys)}" if self.keys else "no key"
        return ", ".join(filter(None, [read + by, keys, self.load_method]))

    @property
    def verdict(self) -> str | None:
        """What an operator should know of this combination; None where it merges by a key."""
        if self.load_method in REPLACING and (self.range_column or not self._deletes_by_key):
            return self._replaced()
        if self.load_method == APPEND or (self.load_method == UPSERT and not self.keys):
            return self._appended()
        return None

    @property
    def _deletes_by_key(self) -> bool:
        return self.load_method == DELETE_INSERT

    @property
    def _limit(self) -> str:
        scope = self.scope or Scope()
        return f"by {scope.column}" if scope.rows == RANGE else scope.why or "to a part"

    def _replaced(self) -> str | None:
        by_range, scope = self.load_method == DELETE_INSERT, self.scope or Scope()
        by_bookmark = by_range and self.bookmark and self.bookmark == self.range_column
        if by_bookmark and (scope.is_whole or scope.rows == RANGE):
            return None
        fitting = UPSERT if self.keys else APPEND
        if not scope.is_whole:
            return f"refused: {self.load_method} needs a whole read, and this one is limited " \
                f"({self._limit}); use {fitting}"  # fmt: skip
        if self.method in (INCREMENTAL, LOG_BASED):
            by = f", or delete-insert with range_column {self.bookmark}" if self.bookmark else ""
            return f"refused from the second run on: {self.load_method} needs a whole read; use " \
                f"{fitting}{by}"  # fmt: skip
        return None if by_range else "replaced at each run"

    def _appended(self) -> str:
        start = "" if self.keys else "no key: "
        if self.bookmark:
            return f"{start}appended, only what the table lacks"
        if self.scope is None:
            return f"{start}appended as it comes; what the tap sends again is there twice"
        if self.scope.why == CHANGES_ONLY:
            return f"{start}each change is appended"
        if self.load_method == APPEND:
            return f"{start}appended at each run, whatever the table has"
        if self.scope.is_whole:
            if self.method == FULL_TABLE:
                return f"{start}replaced at each run"
            return f"{start}replaced by this first read; later, changes are appended"
        return f"refused: no key, and the read is limited ({self._limit}); set key_properties, " \
            f"or load_method {APPEND}"  # fmt: skip


def loading_of_plan(pipeline: Pipeline, plan: Mapping[str, Any]) -> Loading:
    """Read how a stream is loaded off what our tap answers to --plan."""
    return _loading(
        pipeline,
        str(plan.get("stream")),
        method=plan.get("method"),
        keys=plan.get("key_properties") or (),
        bookmark=plan.get("key") if plan.get("method") == INCREMENTAL else None,
        scope=scope_of({"singer_spark": {"read": plan.get("read")}}),
    )


def loading_of_schema(pipeline: Pipeline, schema: Mapping[str, Any]) -> Loading:
    """Read it off a SCHEMA message; a limit of rows that only a check sets is none."""
    scope = scope_of(schema)
    if scope and scope.why == "max_rows" and not pipeline.tap.config.get("max_rows"):
        scope = Scope()
    bookmarks = schema.get("bookmark_properties") or ()
    method = INCREMENTAL if bookmarks else _followed(pipeline, schema, scope)
    return _loading(
        pipeline,
        str(schema.get("stream")),
        method=method,
        keys=schema.get("key_properties") or (),
        bookmark=str(bookmarks[0]) if bookmarks else None,
        scope=scope,
    )


def loads_of(pipeline: Pipeline) -> dict[str, dict[str, Any]] | None:
    """Gather what says how our target loads streams, by pattern; None where it is another's."""
    if not pipeline.target.is_ours:
        return None
    config = pipeline.target.config
    given = config.get("stream_options")
    loads = [(EVERY_STREAM, {"load_method": config.get("load_method") or UPSERT})]
    for pattern, one in given.items() if isinstance(given, Mapping) else ():
        known = one if isinstance(one, Mapping) else {}
        loads.append((str(pattern), {name: known[name] for name in _LOADS if name in known}))
    if any(_OTHER_KEY in one for one in _maps(pipeline) if isinstance(one, Mapping)):
        loads.append((_OTHER_KEY, {"key_properties": []}))  # no stream's name: a key may be lost
    found: dict[str, dict[str, Any]] = {}
    for pattern, one in loads:
        found[pattern] = found.get(pattern, {}) | one
    return found


def has_maps(pipeline: Pipeline) -> bool:
    """Say whether streams may be loaded under other names than the tap's."""
    return bool(_maps(pipeline))


def copied_by(pipeline: Pipeline) -> list[str]:
    """Return the patterns of the streams that stream_maps make further tables of."""
    maps = [one for one in _maps(pipeline) if isinstance(one, Mapping)]
    return [str(one["__source__"]) for one in maps if "__source__" in one]


def _maps(pipeline: Pipeline) -> list[Any]:
    return [*pipeline.tap.stream_maps.values(), *pipeline.target.stream_maps.values()]


def _followed(pipeline: Pipeline, schema: Mapping[str, Any], scope: Scope | None) -> str | None:
    """Tell apart a stream of changes, whose first read is whole too, and one read in full."""
    if scope is None:
        return None
    config = pipeline.tap.config
    options = pipeline.tap.options_of(str(schema.get("stream")))
    method = options.get("replication_method") or config.get("default_replication_method")
    follows = scope.why == CHANGES_ONLY or options.get("new_files") or method == LOG_BASED
    return LOG_BASED if follows else FULL_TABLE


def _loading(pipeline: Pipeline, stream: str, *, keys: Sequence[str], **read: Any) -> Loading:
    if not pipeline.target.is_ours:
        return Loading(keys=tuple(keys), **read)
    options = pipeline.target.options_of(stream)
    return Loading(
        keys=tuple(keys if options.get("key_properties") is None else options["key_properties"]),
        load_method=pipeline.target.setting("load_method", stream) or UPSERT,
        range_column=options.get("range_column"),
        **read,
    )


def may_read(pipeline: Pipeline, stream: str) -> bool:
    """Say whether a run of our tap reads a stream, as far as its settings say."""
    config, selected = pipeline.tap.config, pipeline.streams
    if selected and not _is_chosen(stream, selected):
        return False
    patterns = config.get("tables")
    if not isinstance(patterns, list) or str(config.get("source_url")).startswith("kafka:"):
        return True  # topics have longer names
    # A table `schema.name` is the stream `schema-name`.
    dashes = [at for at, char in enumerate(stream) if char == "-"]
    labels = [stream, *(f"{stream[:at]}.{stream[at + 1 :]}" for at in dashes)]
    return any(_is_chosen(label, map(str, patterns)) for label in labels)


def _is_chosen(name: str, wanted: Iterable[str]) -> bool:
    return any(name == one or fnmatchcase(name, one) for one in wanted)
