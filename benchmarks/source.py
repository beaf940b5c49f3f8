"""The source that every contestant reads: tables of PostgreSQL, and how they change."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.tap import Postgres

SHARE_CHANGED = 10
MOST_FOR_SINGER = 200_000


@dataclass(frozen=True)
class Table:
    """A table with the key `id`, and its row as text for PostgreSQL and for DuckDB."""

    name: str
    cursor: str
    row: tuple[str, ...]
    row_in_duckdb: tuple[str, ...]


ORDERS = Table(
    "orders",
    "created_at",
    ("id", "customer", "amount", "qty", "ok::int", "(extract(epoch from created_at) * 1e6)::bigint",
     "note", "day", "floor(ratio * 1000)::bigint"),
    ("id", "customer", "amount::decimal(20,2)", "qty", "ok::int", "epoch_us(created_at)",
     "note", "day", "floor(ratio * 1000)::bigint"),
)  # fmt: skip
FEW = Table("few", ORDERS.cursor, ORDERS.row, ORDERS.row_in_duckdb)


def _small(name: str) -> Table:
    return Table(
        name,
        "updated_at",
        ("id", "name", "amount", "(extract(epoch from updated_at) * 1e6)::bigint"),
        ("id", "name", "amount::decimal(20,2)", "epoch_us(updated_at)"),
    )


# Rows, and of these how many change.
_SIZES = {"customers": (40, 2), "sales": (1_000, 5), "regions": (5, 1)}
SMALL = tuple(_small(name) for name in _SIZES)

CREATE_ORDERS = """
create table {name} as
select n as id, 'customer ' || n % 1000 as customer, (n % 1000000 / 100.0)::numeric(20,2) as amount,
  (n % 50)::int as qty, n % 2 = 0 as ok,
  timestamptz '2024-01-01 00:00:00.123456+00' + n * interval '1 second' as created_at,
  'some note text ' || n as note, date '2024-01-01' + (n % 365)::int as day,
  n / 7.0::float8 as ratio
from generate_series(1, {rows}) n
"""
_CREATE_SMALL = """
create table {name} as
select n as id, '{name} ' || n as name, (n * 1.25)::numeric(20,2) as amount,
  timestamptz '2024-01-01 00:00:00+00' + n * interval '1 second' as updated_at
from generate_series(1, {rows}) n
"""


class Source:
    """A PostgreSQL server with the tables of the works."""

    def __init__(self) -> None:
        self.server = Postgres()
        self._sums: dict[Table, tuple[int, int]] = {}
        self._changes = 0

    def make_orders(self, rows: int) -> None:
        """Make the large table afresh, and one of it that a slow contestant reads."""
        self._make("orders", CREATE_ORDERS.format(name="orders", rows=rows), "created_at")
        few = f"create table few as select * from orders order by id limit {MOST_FOR_SINGER}"
        self._make("few", few, "created_at")

    def make_small(self) -> None:
        for table in SMALL:
            rows, _ = _SIZES[table.name]
            create = _CREATE_SMALL.format(name=table.name, rows=rows)
            self._make(table.name, create, table.cursor)

    def change_orders(self) -> None:
        """Change a tenth of the rows; they become the newest."""
        self._changes += 1
        self._run(
            "update orders set qty = qty + 1, created_at = timestamptz '2030-01-01' "
            f"+ {self._changes} * interval '1 year' + id * interval '1 second' "
            f"where id % {SHARE_CHANGED} = {self._changes % SHARE_CHANGED}"
        )
        self._run("analyze orders")

    def change_small(self) -> None:
        self._changes += 1
        for table in SMALL:
            _, changed = _SIZES[table.name]
            self._run(
                f"update {table.name} set amount = amount + 1, updated_at = timestamptz "
                f"'2030-01-01' + {self._changes} * interval '1 day' + id * interval '1 second' "
                f"where id <= {changed}"
            )

    def checksum(self, table: Table) -> tuple[int, int]:
        """Return the number of rows, and a sum over all their values that knows no order."""
        if table not in self._sums:
            row = f"concat_ws('|', {', '.join(table.row)})"
            digest = f"('x' || substr(md5({row}), 1, 15))::bit(60)::bigint"
            found = self.server.rows(f"select count(*), sum({digest}) from {table.name}")
            self._sums[table] = (int(found[0][0]), int(found[0][1]))
        return self._sums[table]

    def rows(self, table: Table) -> int:
        return self.checksum(table)[0]

    def stop(self) -> None:
        self.server.stop()

    def _make(self, name: str, create: str, cursor: str) -> None:
        self._run(f"drop table if exists {name}")
        self._run(create)
        self._run(f"alter table {name} add primary key (id)")
        self._run(f"create index on {name} ({cursor})")
        self._run(f"analyze {name}")

    def _run(self, statement: str) -> None:
        self._sums.clear()
        self.server.run(statement)
