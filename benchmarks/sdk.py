"""What we measure against: the plainest file target and SQL tap that singer-sdk makes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from singer_sdk import SQLConnector, SQLStream, SQLTap, Target
from singer_sdk import typing as th
from singer_sdk.sinks import BatchSink


class FileSink(BatchSink):
    """Writes batches as lines of JSON."""

    def process_batch(self, context):
        with Path(self.config["path"]).open("a") as file:
            file.writelines(json.dumps(record, default=str) + "\n" for record in context["records"])


class FileTarget(Target):
    """A singer-sdk target with its default settings."""

    name = "target-file"
    config_jsonschema = th.PropertiesList(th.Property("path", th.StringType)).to_dict()
    default_sink_class = FileSink


class Connector(SQLConnector):
    """SQLAlchemy with psycopg."""

    def get_sqlalchemy_url(self, config):
        return config["url"]


class TableStream(SQLStream):
    """A table read by the SDK's own query."""

    connector_class = Connector


class DatabaseTap(SQLTap):
    """A singer-sdk SQL tap with its default settings."""

    name = "tap-database"
    config_jsonschema = th.PropertiesList(th.Property("url", th.StringType)).to_dict()
    default_stream_class = TableStream


if __name__ == "__main__":
    plugin = {"target": FileTarget, "tap": DatabaseTap}[sys.argv.pop(1)]
    plugin.cli()
