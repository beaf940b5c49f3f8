"""The rules of loading in plain Python: each record acts on its row, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

DELETED_AT = "_sdc_deleted_at"
Record = dict[str, Any]


def upserted(
    rows: Iterable[Record],
    records: Iterable[Record],
    columns: Sequence[str],
    *,
    hard: bool,
    partial: bool = False,
    dedupe_by: str | None = None,
) -> list[Record]:
    """Apply records by `id`: older ones do nothing, deletions carry what they carry."""
    known = {row["id"]: row for row in rows}
    for record in records:
        before = known.get(record["id"])
        deleted = record.get(DELETED_AT) is not None
        carried = record if partial or deleted else columns
        if before and dedupe_by in carried and _is_older(record[dedupe_by], before[dedupe_by]):
            continue
        if deleted and hard:
            known.pop(record["id"], None)
            continue
        row = before or dict.fromkeys(columns)
        known[record["id"]] = row | _told(record, carried)
    return list(known.values())


def partitioned(
    rows: Iterable[Record],
    records: Iterable[Record],
    columns: Sequence[str],
    *,
    hard: bool,
    by: str,
) -> list[Record]:
    """Apply records by `id` within their partition, which the first of them empties.

    A deletion that does not tell its partition is for all of them; none makes a row.
    """
    known = {(row["id"], row[by]): row for row in rows}
    replaced = set()
    for record in records:
        if record.get(DELETED_AT) is None:
            if record[by] not in replaced:
                replaced.add(record[by])
                known = {key: row for key, row in known.items() if key[1] != record[by]}
            known[record["id"], record[by]] = _told(record, columns)
            continue
        for key in [
            key for key in known if key[0] == record["id"] and record.get(by, key[1]) == key[1]
        ]:
            if hard:
                del known[key]
            else:
                known[key] = known[key] | _told(record, record)
    return list(known.values())


def _told(record: Record, carried: Iterable[str]) -> Record:
    return {name: record.get(name) for name in carried} | {DELETED_AT: record.get(DELETED_AT)}


def _is_older(value: Any, known: Any) -> bool:
    return known is not None and (value is None or value < known)
