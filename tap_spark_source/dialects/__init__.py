"""The dialect of each database that has one, by the URL that names its driver."""

from __future__ import annotations

from tap_spark_source.dialects.base import Dialect
from tap_spark_source.dialects.derby import Derby
from tap_spark_source.dialects.mysql import MariaDB, MySQL
from tap_spark_source.dialects.oracle import Oracle
from tap_spark_source.dialects.postgres import Postgres
from tap_spark_source.dialects.sqlite import SQLite
from tap_spark_source.dialects.sqlserver import SQLServer

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
