"""Where comparisons are kept: the versions of one stream, in a Delta table of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from singer_spark.errors import SettingsError, StateError
from singer_spark.names import literal, quote
from tap_spark_source.plan.bookmark import SNAPSHOT
from tap_spark_source.plan.read_plan import KeyForm


def folder_name(stream: str) -> str:
    """Return a name that no other stream has; plain names stay as they are."""
    odd = re.compile(r"[^A-Za-z0-9_.-]|^\.")
    return odd.sub(lambda found: "".join(f"~{byte:02x}" for byte in found[0].encode()), stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One version that is kept: of a comparison, or of keys that were told without one."""

    version: str
    is_told: bool
    form: KeyForm


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The versions of one stream: a Delta table with a partition for each.

    Beside the versions of comparisons there are those of the keys that were told in between. Each
    has a row without a key, which says that it is there, even of an empty table, and in what form.
    """

    spark: SparkSession
    path: str
    form: KeyForm

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

    def kept(self, stream: str) -> list[Kept]:
        """Return what is there; fail where it is of another source."""
        found = self._whole().where("key is null").select("version", "change", "record")
        kept = []
        for row in found.toArrow().to_pylist():
            form = KeyForm.from_json(json.loads(row["record"]))
            kept.append(Kept(version=row["version"], is_told=bool(row["change"]), form=form))
        if any(one.form.source != self.form.source for one in kept):
            raise SettingsError(
                f"{stream}: {self.path} holds comparisons of another source; set a snapshot_path "
                "that no other source has. Where it is the same source at another address, remove "
                f"that folder, and {SNAPSHOT} from the bookmark, to begin with a new comparison"
            )
        return kept

    def require(self, version: str, known: Sequence[str], stream: str) -> None:
        """Fail where a version is not among those that are there."""
        if version not in known:
            raise StateError(
                f"{stream}: snapshot {version}, which the bookmark names, is not in {self.path}; "
                f"restore it, or remove {SNAPSHOT} from the bookmark to begin with a new comparison"
            )

    def rows_of(self, condition: str) -> DataFrame:
        """Return the keys and hashes of the rows that were told or compared in some versions."""
        found = self._whole().where(condition)
        kept = found.where("key is not null and change is distinct from 'deleted'")
        return kept.select("key", "hash")

    def changes(self, version: str, *, with_rows: bool) -> DataFrame:
        """Return the deletions that a version found, or all changes."""
        wanted = "change is not null" if with_rows else "change = 'deleted'"
        return self._whole().where(f"version = {literal(version)}").where(wanted)

    def write(self, version: str, rows: DataFrame) -> None:
        """Keep the result of a comparison."""
        self._append(version, rows, told="null")

    def note(self, version: str, keys: DataFrame) -> None:
        """Keep the keys of rows that are told without a comparison."""
        empty = "cast(null as binary) as hash", "'told' as change", "cast(null as string) as record"
        self._append(version, keys.selectExpr("key", *empty), told="'told'")

    def _append(self, version: str, rows: DataFrame, *, told: str) -> None:
        form = literal(json.dumps(self.form.to_json()))
        items = f"null as key, null as hash, {told} as change, {form} as record"
        mark = self.spark.sql(f"select {items}")
        named = rows.union(mark).selectExpr(f"{literal(version)} as version", "*")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What to compare with: a condition on versions, and how many must agree with a row.

    None says that no row counts as unchanged.
    """

    condition: str
    versions: int | None


def base_of(kept: Sequence[Kept], form: KeyForm, version: str | None, *, run: str) -> Base:
    """Decide what a table is compared with, of what is there and what the bookmark names.

    Keys of another form are never compared: each of them would look like a deletion.

    `version` is named by the bookmark, `run` is that of what this run has told.
    """
    same = {one.version for one in kept if one.form.key == form.key}
    other = {one.version for one in kept} - same
    if version is None or version in other:
        return Base(condition=f"version in ({_listed({*same, run})})", versions=None)
    condition, later = f"version >= {literal(version)}", {one for one in other if one > version}
    if later:
        return Base(condition=f"{condition} and version not in ({_listed(later)})", versions=None)
    compared = {one.version for one in kept if not one.is_told}
    return Base(condition=condition, versions=sum(one >= version for one in compared))


def _listed(versions: Iterable[str]) -> str:
    return ", ".join(map(literal, sorted(versions)))
