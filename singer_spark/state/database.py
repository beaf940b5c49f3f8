"""The connection to a SQL database that keeps state: which driver, which file, which words."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from singer_spark.errors import SettingsError

WAIT_SECONDS = 30.0
POSTGRES = ("postgresql+psycopg", "postgres")
MYSQL = ("mysql+pymysql", "mysql")
# What a scheme is to SQLAlchemy, and which extra brings its driver.
DRIVERS = {
    "postgresql": POSTGRES,
    "postgres": POSTGRES,
    "postgresql+psycopg": POSTGRES,
    "mysql": MYSQL,
    "mariadb": MYSQL,
    "mysql+pymysql": MYSQL,
}
# A peer that is gone must not hold a heartbeat for longer than a lock lives.
# Prepared statements are lost behind PgBouncer.
CONNECT: dict[str, dict[str, Any]] = {
    "postgresql+psycopg": {
        "connect_timeout": 10,
        "tcp_user_timeout": 30_000,
        "prepare_threshold": None,
    },
    "mysql+pymysql": {"connect_timeout": 10, "read_timeout": 30, "write_timeout": 30},
}


class Database(NamedTuple):
    """A database that can be connected to; `place` names it without secrets."""

    engine: Engine
    place: str
    file: Path | None = None

    @property
    def is_there(self) -> bool:
        """Tell that connecting will not create it."""
        return self.file is None or self.file.exists()

    def explain(self, error: SQLAlchemyError) -> str:
        """Tell what a driver said, in one line and without the password."""
        told = str(getattr(error, "orig", None) or type(error).__name__).strip()
        line = told.splitlines()[0] if told else type(error).__name__
        secrets = [self.engine.url.password, *map(str, self.engine.url.query.values())]
        for secret in filter(None, secrets):
            line = line.replace(str(secret), "***")
        return line


def open_database(url: str) -> Database:
    """Connect, lazily, to the database of a URL."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Its own text repeats the URL, password included.
        raise SettingsError(
            "state: this is no database URL; write sqlite:///file.db or "
            "postgresql://user:password@host:5432/database, with special signs as %40"
        ) from None
    if parsed.drivername == "sqlite":
        return _open_sqlite(parsed)
    return _open_server(parsed)


def _open_server(url: URL) -> Database:
    driver, extra = DRIVERS[url.drivername]
    if not url.database:
        raise SettingsError(f"state: name the database, {url.drivername}://user@host/database")
    try:
        engine = create_engine(
            url.set(drivername=driver),
            isolation_level="AUTOCOMMIT",
            pool_pre_ping=True,
            connect_args=CONNECT[driver],
        )
    except ModuleNotFoundError:
        raise SettingsError(
            f"state: {url.drivername}:// needs a driver; pip install 'singer-spark[{extra}]'"
        ) from None
    port = f":{url.port}" if url.port else ""
    return Database(engine, f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database}")


def _open_sqlite(url: URL) -> Database:
    mode = url.query.get("mode", "rwc")
    if set(url.query) - {"mode"} or mode not in ("ro", "rw", "rwc"):
        raise SettingsError("state: an SQLite URL takes nothing but ?mode=ro, rw or rwc")
    if not url.database or url.host:
        raise SettingsError("state: an SQLite URL has three slashes, sqlite:///state.db")
    file = Path(url.database).expanduser()
    engine = create_engine(
        URL.create(
            "sqlite", database=f"file:{quote(str(file))}", query={"mode": mode, "uri": "true"}
        ),
        isolation_level="AUTOCOMMIT",
        connect_args={"timeout": WAIT_SECONDS},
    )
    if mode != "ro":
        event.listen(engine, "connect", _write_ahead)
    return Database(engine, f"sqlite:///{file}", file)


def _write_ahead(connection: Any, _record: object) -> None:
    """Let readers read while one writes; the first of several to ask for it may have to wait."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
