"""State in one table of a SQL database: SQLite, PostgreSQL, MySQL or MariaDB.

Every operation is one statement in a transaction of its own. Conditions are part of the statement,
so that the database itself decides between writers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final
from uuid import uuid4

from sqlalchemy import (
    Column,
    ColumnElement,
    Executable,
    MetaData,
    Select,
    String,
    Table,
    Text,
    delete,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from singer_spark.errors import SettingsError, StateError
from singer_spark.state.database import Database
from singer_spark.state.objects import ConflictError, Expect, Stored

TABLE = "singer_spark_state"
TABLE_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)?[A-Za-z_]\w*", re.ASCII)
ATTEMPTS = 20  # each lost to another writer
MYSQL_DEADLOCKS = ((1205,), (1213,))


@final
class SqlObjects:
    """Objects as rows of one table, which is created when first written to."""

    def __init__(self, database: Database, table: str = TABLE) -> None:
        if not TABLE_NAME.fullmatch(table):
            raise SettingsError("state.table: must be a plain name, or schema.name")
        self._database = database
        self._table = _table(table)
        self._created = False

    @property
    def place(self) -> str:
        """Name the database."""
        return self._database.place

    def locate(self, key: str) -> str:
        """Name one object."""
        return f"{self.place}/{key}"

    def read(self, key: str) -> Stored | None:
        """Read one row."""
        columns = self._table.c
        rows = self._rows(select(columns.body, columns.version).where(*self._is(key)))
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
            gone = self._run(delete(self._table).where(*self._is(key, expected)))
        if not gone and expected is not Expect.ANYTHING and self.read(key) is not None:
            raise ConflictError(self.locate(key))

    def list(self, folder: str) -> list[str]:
        """List the names directly in a folder."""
        columns = self._table.c
        start = f"{folder}/" if folder else ""
        inner = select(columns.folder).distinct()
        if not folder:
            return _first_parts(row.folder for row in self._rows(inner))
        names = self._rows(select(columns.name).where(columns.folder == folder))
        inner = inner.where(columns.folder.startswith(start, autoescape=True))
        # SQLite's LIKE knows no case.
        below = [row.folder for row in self._rows(inner) if row.folder.startswith(start)]
        return [row.name for row in names] + _first_parts(path[len(start) :] for path in below)

    def _put(self, key: str, values: dict[str, str], expected: str | Expect) -> bool:
        if expected is Expect.ABSENT:
            return self._insert(key, values)
        change = update(self._table).where(*self._is(key, expected)).values(values)
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
            self._run(insert(self._table).values(folder=folder, name=name, **values))
        except IntegrityError:
            return False
        return True

    def _is(
        self, key: str, expected: str | Expect = Expect.ANYTHING
    ) -> Iterator[ColumnElement[bool]]:
        folder, _, name = key.rpartition("/")
        yield self._table.c.folder == folder
        yield self._table.c.name == name
        if expected is not Expect.ANYTHING:
            yield self._table.c.version == expected

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        """Read rows; a table that does not exist has none."""
        with self._explained("read"):
            if not self._database.is_there:
                return []
            try:
                return self._query(query)
            except DBAPIError:
                # It may have been created since.
                return self._query(query) if self._exists() else []

    def _query(self, query: Select[Any]) -> Sequence[Any]:
        with self._database.engine.connect() as connection:
            return connection.execute(query).all()

    def _run(self, statement: Executable) -> int:
        """Change rows and tell how many; a statement that had to give way is repeated."""
        for _ in range(ATTEMPTS - 1):
            with _deadlocks_passed():
                return self._run_once(statement)
        return self._run_once(statement)

    def _run_once(self, statement: Executable) -> int:
        with self._database.engine.connect() as connection:
            return connection.execute(statement).rowcount

    def _exists(self) -> bool:
        if not self._created:
            name, schema = self._table.name, self._table.schema
            there = self._database.is_there
            self._created = there and inspect(self._database.engine).has_table(name, schema)
        return self._created

    def _create(self) -> None:
        """Create the table; of several who try at once all go on."""
        if self._created:
            return
        if self._database.file:
            self._database.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._table.create(self._database.engine, checkfirst=True)
        except DBAPIError:
            if not self._exists():
                raise
        self._created = True

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
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
    except OperationalError as error:
        if not error.orig or error.orig.args[:1] not in MYSQL_DEADLOCKS:
            raise


def _table(full_name: str) -> Table:
    schema, _, name = full_name.rpartition(".")
    return Table(
        name,
        MetaData(schema=schema or None),
        Column("folder", _exact(160), primary_key=True),
        Column("name", _exact(80), primary_key=True),
        Column("version", _exact(32), nullable=False),
        Column("body", Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"), nullable=False),
    )


def _exact(length: int) -> String:
    """Make a column of plain names; MySQL's own collation would take A and a for the same."""
    plain = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return String(length).with_variant(plain, "mysql", "mariadb")


def _first_parts(paths: Iterator[str]) -> list[str]:
    return sorted({f"{path.split('/')[0]}/" for path in paths})
