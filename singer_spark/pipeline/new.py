"""A new pipeline file, written from the URL of its source. Pure.

A password in the URL is taken out: the file names an environment variable in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from singer_spark.errors import SettingsError
from singer_spark.pipeline.login import take_login

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
        """Tell whether the source asks for a user."""
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
