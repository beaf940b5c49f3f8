"""The tap as the SDK and the command line know it."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import click
from singer_sdk import Tap
from singer_sdk.plugin_base import _ConfigInput
from singer_sdk.singerlib import Catalog
from typing_extensions import override

from singer_spark import exact_json
from singer_spark.assignment import STREAMS, Assignment, Loaded
from singer_spark.engine.session import open_session
from singer_spark.errors import SettingsError, StateError
from singer_spark.names import chosen_names, unmatched
from singer_spark.plugin import SparkPlugin, read_json_object
from singer_spark.report import is_reporting, report
from tap_spark_source.output.records import ExactWriter
from tap_spark_source.plan.replication import read_catalog
from tap_spark_source.plan.source_settings import Identity, place_of, source_problems
from tap_spark_source.settings import CONFIG_JSONSCHEMA, Settings
from tap_spark_source.sources import open_source
from tap_spark_source.sources.base import Place, Source
from tap_spark_source.stream import SparkStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tap_spark_source.plan.table import Table


class TapSparkSource(SparkPlugin, Tap):
    """Singer tap that reads databases and lakes with Apache Spark."""

    name = "tap-spark-source"
    config_jsonschema: ClassVar[dict[str, Any]] = CONFIG_JSONSCHEMA
    dynamic_catalog = True
    message_writer_class = ExactWriter
    _is_checked = _has_looked = False

    def __init__(self, *, catalog: Catalog | dict[str, Any] | None = None, **options: Any) -> None:
        if isinstance(catalog, dict) and not isinstance(catalog, Catalog):
            catalog = read_catalog(catalog)
        super().__init__(catalog=catalog, **options)

    @override
    @classmethod
    def settings_problems(cls, config: Mapping[str, Any]) -> list[str]:
        return super().settings_problems(config) + source_problems(config)

    @cached_property
    def settings(self) -> Settings:
        """What the tap was asked to do."""
        return Settings.from_config(self.config)

    @cached_property
    def source(self) -> Source:
        """The source; Spark starts here."""
        return open_source(self.settings)

    def find(self, place: Place) -> Table | None:
        """Describe the table of a stream; with the first one those of all others are asked for."""
        if not self._has_looked:
            self._has_looked = True
            streams = cast("dict[str, SparkStream]", self.streams)
            self.source.prefetch(one.place for one in streams.values() if one.is_chosen)
        return self.source.find(place)

    def check_source(self) -> None:
        """Fail, once and before a row is read, where the state belongs to another source."""
        if self._is_checked or not (is_reporting() or self._assignment.source):
            return
        self._is_checked = True
        found = Identity(place=place_of(self.settings), id=self.source.own_id())
        found.check(self._assignment)
        report("source", "", id=found.id, place=found.place)

    @cached_property
    def _assignment(self) -> Assignment:
        return Assignment.here()

    def reloads(self, stream: str) -> bool:
        """Say whether the runner has a stream loaded afresh."""
        return self._assignment.reloads(stream)

    def loaded(self, stream: str, keys: Sequence[str]) -> Loaded:
        """Say what becomes of a stream's rows; in a plain pipe nobody knows."""
        return self._assignment.loaded(stream, keys)

    @property
    def knows_loading(self) -> bool:
        """Say whether the runner tells what becomes of rows."""
        return self._assignment.loads is not None

    @property
    def spark(self) -> SparkSession:
        """The session that the source runs in."""
        return open_session(self.settings.spark, urls=self.settings.urls)

    @property
    @override
    def catalog(self) -> Catalog:
        # The SDK discovers the whole source where the given catalog is empty.
        return self._singer_catalog if self.input_catalog is None else self.input_catalog

    @override
    def discover_streams(self) -> Sequence[SparkStream]:
        """Return the streams of the catalog, or without one those of the source."""
        if self.input_catalog is not None:
            return [SparkStream(self, entry=entry) for entry in self.input_catalog.streams]
        tables = self.source.discover()
        if not tables:
            self.logger.warning("No table of the source matches the setting tables")
        for pattern in unmatched(self.settings.stream_options, [table.stream for table in tables]):
            self.logger.warning("stream_options: no stream is named %s", pattern)
        return [SparkStream(self, table=table) for table in self._chosen(tables)]

    def _chosen(self, tables: Sequence[Table]) -> Sequence[Table]:
        """Leave out the tables that the pipeline does not name."""
        wanted = json.loads(os.environ.get(STREAMS) or "[]")
        names = chosen_names([table.stream for table in tables], wanted) if wanted else None
        return tables if names is None else [table for table in tables if table.stream in names]

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        """Take over the state as it is; what it holds beside bookmarks survives."""
        bookmarks = {} if state.get("bookmarks") is None else state["bookmarks"]
        if not isinstance(bookmarks, dict):
            raise StateError("the state's bookmarks must be a JSON object, by stream")
        for stream, value in bookmarks.items():
            if not isinstance(value, dict):
                raise StateError(f"{stream}: the bookmark must be a JSON object; correct the state")
        # In place: the streams hold this very dictionary.
        kept: dict[str, Any] = cast("dict[str, Any]", self.state)
        kept |= copy.deepcopy({**state, "bookmarks": bookmarks} if state else {})

    @override
    def _reset_state_progress_markers(self) -> None:
        """Do nothing: a bookmark of a stream that is not read stays as it is."""

    # Command line

    @override
    @classmethod
    def invoke(  # type: ignore[override]
        cls,
        *,
        about: bool = False,
        about_format: str | None = None,
        config: _ConfigInput | None = None,
        state: str | None = None,
        catalog: str | None = None,
        plan: bool = False,
    ) -> None:
        """Sync, or tell what a sync would read, with the state and catalog of the named files."""
        if about:
            cls.print_about(about_format)
            sys.exit(0)
        config = config or _ConfigInput()
        tap = cls(
            config=config.config,
            state=_read_state(state) if state else None,
            catalog=read_json_object(catalog, "catalog") if catalog else None,
            parse_env_config=config.parse_env,
        )
        if plan:
            click.echo(json.dumps({"streams": tap.previews()}, indent=2))
        else:
            tap.sync_all()

    def previews(self) -> list[dict[str, Any]]:
        """Describe the reads of the selected streams."""
        streams = cast("dict[str, SparkStream]", self.streams)
        return [stream.preview() for stream in streams.values() if stream.selected]

    @override
    @classmethod
    def get_singer_command(cls) -> click.Command:
        command = super().get_singer_command()
        for option in command.params:
            # The SDK would open the files itself, and end with another code where it cannot.
            if option.name in ("state", "catalog"):
                option.type = click.STRING
        text = "Tell what a run would read, as JSON, and read nothing."
        command.params.append(click.Option(["--plan"], is_flag=True, help=text))
        return command


def _parse_state(text: str) -> Any:
    return exact_json.loads(text, most=exact_json.STATE_LEVELS)


def _read_state(name: str) -> dict[str, Any]:
    try:
        return read_json_object(name, "state", parse=_parse_state)
    except SettingsError as error:
        raise StateError(error.message) from error
