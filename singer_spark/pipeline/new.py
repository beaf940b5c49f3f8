"""A new pipeline file, written from the URL of its source. Pure.

A password in the URL is taken out: the file names an environment variable in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from singer_spark.errors import SettingsError

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
    if url.startswith("jdbc:"):
        return _from_jdbc(url)
    parts = urlsplit(url)
    if parts.scheme not in JDBC:
        known = ", ".join([*(f"{name}://…" for name in JDBC), "jdbc:…", *FOLDERS[:4]])
        raise SettingsError(f"the source's URL is of no known kind; known are {known}")
    port = f":{parts.port}" if parts.port else ""
    place, database = f"//{parts.hostname or 'localhost'}{port}", parts.path.strip("/")
    if JDBC[parts.scheme] == "sqlserver":
        jdbc = f"jdbc:sqlserver:{place};databaseName={database}"
    else:
        query = f"?{parts.query}" if parts.query else ""
        jdbc = f"jdbc:{JDBC[parts.scheme]}:{place}/{database}{query}"
    return Source(jdbc, _decoded(parts.username), _decoded(parts.password))


def _from_jdbc(url: str) -> Source:
    """Take user and password out of a JDBC URL's parameters."""
    place, mark, query = url.partition("?")
    if not mark:
        return Source(re.sub(r"(?<=//)[^/@]*@", "", url))
    given = dict(parse_qsl(query, keep_blank_values=True))
    user, password = given.pop("user", None), given.pop("password", None)
    rest = f"?{urlencode(given)}" if given else ""
    return Source(place + rest, user, password)


def _decoded(text: str | None) -> str | None:
    return unquote(text) if text else None


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
        f"name: {name}",
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
