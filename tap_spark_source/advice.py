"""Warnings that save people: what a table and its keys make slow, incomplete or lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tap_spark_source.plan import ReadPlan
from tap_spark_source.table import Column, Index, Table


def advice(plan: ReadPlan) -> Iterator[str]:
    """Yield what to look at, of what the settings and the source say about its table."""
    if plan.partition_column and not plan.snapshot and (plan.window or plan.new_files):
        yield (
            f"partition_column {plan.partition_column} has no effect: it cuts reads of the whole "
            "table, and this one goes by replication key or by files; remove it"
        )
    table, indexes = plan.table, plan.table.indexes
    if table.is_view:
        return
    if table.knows_nulls:
        yield from _about_nulls(plan)
    if indexes is None:
        return
    if plan.window is not None and plan.key is not None:
        first = plan.key.parts[0]
        if not any(_serves(index, first, table) for index in indexes):
            yield (
                f"no index begins with the replication key {first.name}: every run reads the whole "
                f"of {table.label}; create one"
            )
    if plan.key_properties and not _is_unique(table, indexes, plan.key_properties):
        yield (
            f"no unique index guarantees that {', '.join(plan.key_properties)} tells rows apart; "
            "rows that share it replace each other in the target"
        )


def _about_nulls(plan: ReadPlan) -> Iterator[str]:
    window, key = plan.window, plan.key
    if window is None or key is None or not key.is_nullable or window.null_keys == "fail":
        return
    always = window.null_keys == "include" and not window.is_fixed
    yield (
        f"replication key {key.label} may be NULL, and such rows are "
        f"{'read in every run' if always else 'never read'}; declare it NOT NULL, or use an "
        "expression such as coalesce(updated_at, created_at)"
    )


def _serves(index: Index, part: Column, table: Table) -> bool:
    """Say whether an index may begin with the key; expressions have more than one spelling."""
    first = index.columns[0]
    return first == part.name if part.sql is None else table.column(first) is None


def _is_unique(table: Table, indexes: tuple[Index, ...], names: tuple[str, ...]) -> bool:
    unique = [index.columns for index in indexes if index.is_unique]
    return any(set(columns) <= set(names) for columns in [*unique, table.keys or ("",)])
