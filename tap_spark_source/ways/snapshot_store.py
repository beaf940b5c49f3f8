"""Where comparisons are kept: the versions of one stream, in a Delta table of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singer_spark.errors import StateError
from singer_spark.names import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOOKMARK = "snapshot"


def folder_name(stream: str) -> str:
    """Return a name that no other stream has; plain names stay as they are."""
    return re.sub(
        r"[^A-Za-z0-9_.-]|^\.",
        lambda found: "".join(f"~{byte:02x}" for byte in found[0].encode()),
        stream,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The versions of one stream: a Delta table with a partition for each.

    Beside the versions of comparisons there are those of the keys that were told in between.
    """

    spark: SparkSession
    path: str

    @property
    def _name(self) -> str:
        return f"delta.{quote(self.path)}"

    def prepare(self) -> None:
        """Make the table, if it is not there; what is removed from it goes at once."""
        self.spark.sql(
            f"create table if not exists {self._name} "
            "(version string, key string, hash binary, change string, record string) "
            "using delta partitioned by (version) tblproperties ("
            "'delta.deletedFileRetentionDuration' = 'interval 0 seconds', "
            "'delta.logRetentionDuration' = 'interval 1 days')"
        )

    def versions(self) -> list[str]:
        """Name the versions that are there."""
        found = self._whole().where("key is null").select("version")
        return [str(version) for version in found.toArrow().column(0).to_pylist()]

    def require(self, version: str, known: Sequence[str], stream: str) -> None:
        """Fail where a version is not among those that are there."""
        if version not in known:
            raise StateError(
                f"{stream}: snapshot {version}, which the bookmark names, is not in {self.path}; "
                f"restore it, or remove {BOOKMARK} from the bookmark to begin with a new comparison"
            )

    def rows_since(self, version: str | None) -> DataFrame:
        """Return the keys and hashes of the rows that were told or compared from a version on."""
        found = self._whole().where(f"version >= {literal(version or '')}")
        kept = found.where("key is not null and change is distinct from 'deleted'")
        return kept.select("key", "hash")

    def changes(self, version: str, *, with_rows: bool) -> DataFrame:
        """Return the deletions that a version found, or all changes."""
        wanted = "change is not null" if with_rows else "change = 'deleted'"
        return self._whole().where(f"version = {literal(version)}").where(wanted)

    def write(self, version: str, rows: DataFrame) -> None:
        """Keep the result of a comparison."""
        # A row without a key says that the version is there, even of an empty table.
        mark = self.spark.sql("select null as key, null as hash, null as change, null as record")
        named = rows.union(mark).selectExpr(f"{literal(version)} as version", "*")
        named.write.format("delta").mode("append").save(self.path)

    def note(self, version: str, keys: DataFrame) -> None:
        """Keep the keys of rows that are told without a comparison."""
        empty = "cast(null as binary) as hash", "'told' as change", "cast(null as string) as record"
        named = keys.selectExpr(f"{literal(version)} as version", "key", *empty)
        named.write.format("delta").mode("append").save(self.path)

    def forget_before(self, version: str, known: Sequence[str]) -> None:
        """Remove the versions that no state can name any more.

        The one before the given one stays: a run that resumed from a checkpoint may fail, and the
        next one begin with the state that the checkpoint had not replaced yet.
        """
        older = sorted(found for found in known if found < version)
        if len(older) > 1:
            self.spark.sql(f"delete from {self._name} where version < {literal(older[-1])}")
            self.spark.sql(f"vacuum {self._name} retain 0 hours")

    def _whole(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)
