"""`singer-spark init`: a pipeline file, by asking or from what is given.

A password in the source's URL is not written down: the file names an environment variable for it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import click

from singer_spark.errors import SettingsError
from singer_spark.pipeline import parse_pipeline
from singer_spark.pipeline.cron import is_cron
from singer_spark.pipeline.source_url import take_login
from singer_spark.state.store import PIPELINE_NAME

JDBC = {
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "mysql": "mysql",
    "mariadb": "mariadb",
    "mssql": "sqlserver",
    "sqlserver": "sqlserver",
}
FOLDERS = ("delta:", "parquet:", "csv:", "json:", "orc:", "avro:", "text:", "catalog:", "kafka:")


@dataclass(frozen=True, slots=True)
class Source:
    """Where to read; the password is never kept in the file."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def has_login(self) -> bool:
        """Whether the source asks for a user."""
        return self.url.startswith("jdbc:") and "derby" not in self.url


def parse_source(url: str) -> Source:
    """Understand a source's URL: a JDBC URL, a database's usual URL, or a kind and a path."""
    if url.startswith(FOLDERS):
        return Source(url)
    bare, user, password = take_login(url)
    return Source(_as_jdbc(bare), user, password)


def _as_jdbc(url: str) -> str:
    if url.startswith("jdbc:"):
        return url
    parts = urlsplit(url)
    if parts.scheme not in JDBC:
        known = ", ".join([*(f"{name}://…" for name in JDBC), "jdbc:…", *FOLDERS[:4]])
        raise SettingsError(f"the source's URL is of no known kind; known are {known}")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise SettingsError("the source's URL has a port that is no number; correct it") from None
    place, database = f"//{parts.hostname or 'localhost'}{port}", parts.path.strip("/")
    if JDBC[parts.scheme] == "sqlserver":
        return f"jdbc:sqlserver:{place};databaseName={database}"
    query = f"?{parts.query}" if parts.query else ""
    return f"jdbc:{JDBC[parts.scheme]}:{place}/{database}{query}"


def password_variable(name: str) -> str:
    """Name the environment variable that holds a pipeline's password."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper()) + "_PASSWORD"


def write_text(
    name: str,
    source: Source,
    destination: str,
    *,
    key: str | None = None,
    cron: str | None = None,
) -> str:
    """Write a pipeline file; JSON's quotes are YAML's too."""
    config: dict[str, str] = {"source_url": source.url}
    if source.user:
        config |= {"source_user": source.user}
        config |= {"source_password": f"${{{password_variable(name)}}}"}
    if key:
        config |= {"default_replication_method": "INCREMENTAL", "default_replication_key": key}
    lines = [
        f"name: {json.dumps(name)}",
        "source:",
        "  tap: tap-spark-source",
        "  config:",
        *_pairs(config, "    "),
        "  # streams: [public-orders]          # default: all",
        "destination:",
        "  target: target-spark-delta",
        "  config:",
        *_pairs({"path": destination}, "    "),
    ]
    if cron:
        lines.append(f"schedule: {{cron: {json.dumps(cron)}}}")
    lines.append("# timeout: 6h")
    lines.append("# alerts: {max_lag: 2h, empty_runs: 3, max_duration: 30m, webhook: https://…}")
    return "\n".join(lines) + "\n"


def _pairs(values: Mapping[str, str], indent: str) -> list[str]:
    return [f"{indent}{key}: {json.dumps(value)}" for key, value in values.items()]


NONE = "none"


@click.command(short_help="Write a pipeline file.")
@click.argument("name", required=False)
@click.option("--source", "url", metavar="URL",
              help="Such as postgresql://user@host/shop, jdbc:…, csv:FOLDER.")  # fmt: skip
@click.option("--destination", metavar="PATH", help="Where the tables go: a folder, s3a://…")
@click.option("--key", metavar="COLUMN", help="Read incrementally by this column; 'none': in full.")
@click.option(
    "--cron", metavar="FIELDS", help="When to run, such as '*/15 * * * *'; 'none': by hand."
)
def init(
    *,
    name: str | None,
    url: str | None,
    destination: str | None,
    key: str | None,
    cron: str | None,
) -> None:
    """Write pipelines/NAME.yml, asking for what is not given. Never overwrites.

    A password is not written down: the file names an environment variable for it.

    \b
    singer-spark init
    singer-spark init shop --source postgresql://reader@db/shop \\
      --destination s3a://lake/shop --key updated_at --cron '*/15 * * * *'
    """  # noqa: D301, click reads the sign
    name = name or click.prompt("Name of the pipeline")
    path = _new_path(str(name))
    source = parse_source(url or click.prompt("Source, such as postgresql://user@host/shop"))
    source = _ask_for_user(source)
    place = destination or click.prompt("Destination, a folder or s3a://bucket/path")
    key = key or click.prompt("Column to read by, where a table has it", default="updated_at")
    cron = cron or click.prompt("Schedule, five fields of a crontab line", default=NONE)
    if cron != NONE and not is_cron(str(cron)):
        raise SettingsError(
            "--cron: must be the five fields of a crontab line, or @daily and so on"
        )
    text = write_text(
        str(name),
        source,
        str(place),
        key=None if key == NONE else str(key),
        cron=None if cron == NONE else str(cron),
    )
    _write(path, text)
    _print_next(str(name), path, source)


def _new_path(name: str) -> Path:
    if not PIPELINE_NAME.fullmatch(name):
        raise SettingsError(
            "name: holds letters, digits, '.', '_', '-' and ':' only, the first no sign"
        )
    path = Path("pipelines", f"{name}.yml")
    if path.exists() or path.with_suffix(".yaml").exists():
        raise SettingsError(f"{path} exists and is left alone; choose another name, or edit it")
    return path


def _ask_for_user(source: Source) -> Source:
    if source.user or not source.has_login:
        return source
    user = click.prompt("User of the database", default=NONE)
    return Source(source.url, None if user == NONE else str(user), source.password)


def _write(path: Path, text: str) -> None:
    """Write the file, once it is sure that it can be read again."""
    import yaml

    variables = {password_variable(path.stem): "x"}
    parse_pipeline(yaml.safe_load(text), folder=path.parent, env={**os.environ, **variables})
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; it was not written") from error


def _print_next(name: str, path: Path, source: Source) -> None:
    click.echo(f"Wrote {path}. Next:")
    if source.user:
        hint = " (the one in the URL was not written down)" if source.password else ""
        click.echo(f"  export {password_variable(name)}=…   # its password{hint}")
    click.echo(f"  singer-spark check {name}")
    click.echo(f"  singer-spark run {name}")
