"""The dialect of each database that has one, by the URL that names its driver."""

from __future__ import annotations

from tap_spark_source.sources.derby import Derby
from tap_spark_source.sources.dialect import Dialect
from tap_spark_source.sources.mysql import MariaDB, MySQL
from tap_spark_source.sources.oracle import Oracle
from tap_spark_source.sources.postgres import Postgres
from tap_spark_source.sources.sqlite import SQLite
from tap_spark_source.sources.sqlserver import SQLServer

_DIALECTS: dict[str, type[Dialect]] = {
    "postgresql": Postgres,
    "derby": Derby,
    "mysql": MySQL,
    "mariadb": MariaDB,
    "sqlserver": SQLServer,
    "oracle": Oracle,
    "sqlite": SQLite,
}


def dialect_of(url: str) -> Dialect:
    """Return how a database is talked to; one that nobody knows, in standard SQL."""
    return _DIALECTS.get(url.split(":")[1].lower(), Dialect)()
