"""Objects in one table of a SQL database: SQLite, PostgreSQL, MySQL or MariaDB.

Every operation is one statement in a transaction of its own. Conditions are part of the statement,
so that the database itself decides between writers.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, final
from urllib.parse import quote
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import mysql

from singer_spark.errors import SettingsError, StateError
from singer_spark.storage.objects import ConflictError, Expect, Located, Stored

WAIT_SECONDS = 30.0
POSTGRES = ("postgresql+psycopg", "postgres")
MYSQL = ("mysql+pymysql", "mysql")
# What a scheme is to SQLAlchemy, and which extra brings its driver.
DRIVERS = {
    **dict.fromkeys(("postgresql", "postgres", "postgresql+psycopg"), POSTGRES),
    **dict.fromkeys(("mysql", "mariadb", "mysql+pymysql"), MYSQL),
}
# A peer that is gone must not hold a heartbeat for longer than a lock lives.
CONNECT: dict[str, dict[str, Any]] = {
    # Prepared statements are lost behind PgBouncer.
    POSTGRES[0]: {"connect_timeout": 10, "tcp_user_timeout": 30_000, "prepare_threshold": None},
    MYSQL[0]: {"connect_timeout": 10, "read_timeout": 30, "write_timeout": 30},
}


class Database(NamedTuple):
    """A database that can be connected to; `place` names it without secrets."""

    engine: sa.Engine
    place: str
    file: Path | None = None

    @property
    def is_there(self) -> bool:
        """Tell that connecting will not create it."""
        return self.file is None or self.file.exists()

    def explain(self, error: exc.SQLAlchemyError) -> str:
        """Tell what a driver said, in one line and without the password."""
        told = str(getattr(error, "orig", None) or type(error).__name__).strip()
        line = told.splitlines()[0] if told else type(error).__name__
        secrets = [self.engine.url.password, *map(str, self.engine.url.query.values())]
        for secret in filter(None, secrets):
            line = line.replace(str(secret), "***")
        return line


def open_database(url: str) -> Database:
    """Connect, lazily, to the database of a sa.URL."""
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError):
        # Its own text repeats the URL, password included.
        raise SettingsError(
            "state: this is no database URL; write sqlite:///file.db or "
            "postgresql://user:password@host:5432/database, with special signs as %40"
        ) from None
    if parsed.drivername == "sqlite":
        return _open_sqlite(parsed)
    return _open_server(parsed)


def _open_server(url: sa.URL) -> Database:
    driver, extra = DRIVERS[url.drivername]
    if not url.database:
        raise SettingsError(f"state: name the database, {url.drivername}://user@host/database")
    try:
        engine = sa.create_engine(
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


def _open_sqlite(url: sa.URL) -> Database:
    mode = url.query.get("mode", "rwc")
    if set(url.query) - {"mode"} or mode not in ("ro", "rw", "rwc"):
        raise SettingsError("state: an SQLite URL takes nothing but ?mode=ro, rw or rwc")
    if not url.database or url.host:
        raise SettingsError("state: an SQLite URL has three slashes, sqlite:///state.db")
    file = Path(url.database).expanduser()
    query = {"mode": mode, "uri": "true"}
    known = sa.URL.create("sqlite", database=f"file:{quote(str(file))}", query=query)
    waits = {"timeout": WAIT_SECONDS}
    engine = sa.create_engine(known, isolation_level="AUTOCOMMIT", connect_args=waits)
    if mode != "ro":
        sa.event.listen(engine, "connect", _write_ahead)
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


TABLE = "singer_spark_state"
TABLE_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)?[A-Za-z_]\w*", re.ASCII)
ATTEMPTS = 20  # each lost to another writer
MYSQL_DEADLOCKS = ((1205,), (1213,))


@final
class SqlObjects(Located):
    """Objects as rows of one table, which is created when first written to."""

    def __init__(self, database: Database, table: str = TABLE) -> None:
        if not TABLE_NAME.fullmatch(table):
            raise SettingsError("state.table: must be a plain name, or schema.name")
        self._database, self.place = database, database.place
        self._table = _table(table)
        self._created = False

    def read(self, key: str) -> Stored | None:
        """Read one row."""
        columns = self._table.c
        rows = self._rows(sa.select(columns.body, columns.version).where(*self._is(key)))
        return Stored(rows[0].body.encode(), rows[0].version) if rows else None

    def write(self, key: str, body: bytes, expected: str | Expect) -> str:
        """Write one row, if the stored one still is what the writer expects."""
        version = uuid4().hex
        with self._explained("write"):
            self._create()
            if self._put(key, {"version": version, "body": body.decode()}, expected):
                return version
        raise ConflictError(self.locate(key))

    def delete(self, key: str, expected: str | Expect = Expect.ANYTHING) -> None:
        """Delete one row, if it still is what is expected."""
        with self._explained("delete"):
            if not self._exists():
                return
            gone = self._run(sa.delete(self._table).where(*self._is(key, expected)))
        if not gone and expected is not Expect.ANYTHING and self.read(key) is not None:
            raise ConflictError(self.locate(key))

    def list(self, folder: str) -> list[str]:
        """List the names directly in a folder."""
        columns = self._table.c
        start = f"{folder}/" if folder else ""
        inner = sa.select(columns.folder).distinct()
        if not folder:
            return _first_parts(row.folder for row in self._rows(inner))
        names = self._rows(sa.select(columns.name).where(columns.folder == folder))
        inner = inner.where(columns.folder.startswith(start, autoescape=True))
        # SQLite's LIKE knows no case.
        below = [row.folder for row in self._rows(inner) if row.folder.startswith(start)]
        return [row.name for row in names] + _first_parts(path[len(start) :] for path in below)

    def _put(self, key: str, values: dict[str, str], expected: str | Expect) -> bool:
        if expected is Expect.ABSENT:
            return self._insert(key, values)
        change = sa.update(self._table).where(*self._is(key, expected)).values(values)
        for _ in range(ATTEMPTS):
            if self._run(change):
                return True
            if expected is not Expect.ANYTHING:
                return False
            if self._insert(key, values):
                return True
        return False

    def _insert(self, key: str, values: dict[str, str]) -> bool:
        folder, _, name = key.rpartition("/")
        try:
            self._run(sa.insert(self._table).values(folder=folder, name=name, **values))
        except exc.IntegrityError:
            return False
        return True

    def _is(
        self, key: str, expected: str | Expect = Expect.ANYTHING
    ) -> Iterator[sa.ColumnElement[bool]]:
        folder, _, name = key.rpartition("/")
        yield self._table.c.folder == folder
        yield self._table.c.name == name
        if expected is not Expect.ANYTHING:
            yield self._table.c.version == expected

    def _rows(self, query: sa.Select[Any]) -> Sequence[Any]:
        """Read rows; a table that does not exist has none."""
        with self._explained("read"):
            if not self._database.is_there:
                return []
            try:
                return self._query(query)
            except exc.DBAPIError:
                # It may have been created since.
                return self._query(query) if self._exists() else []

    def _query(self, query: sa.Select[Any]) -> Sequence[Any]:
        with self._database.engine.connect() as connection:
            return connection.execute(query).all()

    def _run(self, statement: sa.Executable) -> int:
        """Change rows and tell how many; a statement that had to give way is repeated."""
        for _ in range(ATTEMPTS - 1):
            with _deadlocks_passed():
                return self._run_once(statement)
        return self._run_once(statement)

    def _run_once(self, statement: sa.Executable) -> int:
        with self._database.engine.connect() as connection:
            return connection.execute(statement).rowcount

    def _exists(self) -> bool:
        if not self._created:
            name, schema = self._table.name, self._table.schema
            there = self._database.is_there
            self._created = there and sa.inspect(self._database.engine).has_table(name, schema)
        return self._created

    def _create(self) -> None:
        """Create the table; of several who try at once all go on."""
        if self._created:
            return
        if self._database.file:
            self._database.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._table.create(self._database.engine, checkfirst=True)
        except exc.DBAPIError:
            if not self._exists():
                raise
        self._created = True

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise StateError(
                f"{self.place}: cannot {verb} ({self._database.explain(error)}); check "
                "that the database can be reached and that this user may read and write the table "
                f"{self._table.fullname}"
            ) from error
        except OSError as error:
            raise StateError(
                f"{self.place}: {error.strerror}; check that its folder can be written"
            ) from error


@contextmanager
def _deadlocks_passed() -> Iterator[None]:
    """Pass over MySQL's choice of a victim."""
    try:
        yield
    except exc.OperationalError as error:
        if not error.orig or error.orig.args[:1] not in MYSQL_DEADLOCKS:
            raise


def _table(full_name: str) -> sa.Table:
    schema, _, name = full_name.rpartition(".")
    return sa.Table(
        name,
        sa.MetaData(schema=schema or None),
        sa.Column("folder", _exact(160), primary_key=True),
        sa.Column("name", _exact(80), primary_key=True),
        sa.Column("version", _exact(32), nullable=False),
        sa.Column(
            "body", sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"), nullable=False
        ),
    )


def _exact(length: int) -> sa.String:
    """Make a column of plain names; MySQL's own collation would take A and a for the same."""
    plain = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return sa.String(length).with_variant(plain, "mysql", "mariadb")


def _first_parts(paths: Iterator[str]) -> list[str]:
    return sorted({f"{path.split('/')[0]}/" for path in paths})
