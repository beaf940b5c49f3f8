"""Where comparisons are kept."""

from __future__ import annotations

import pytest

from tap_spark_source.plan.read_plan import KeyForm
from tap_spark_source.plan.source_settings import place_of
from tap_spark_source.readers.snapshot_store import Base, Kept, base_of, folder_name
from tap_spark_source.settings import Settings

FORM, OTHER = KeyForm(source="s", key=("id integer",)), KeyForm(source="s", key=("id string",))


def test_two_streams_never_share_a_folder():
    names = ["public-a_b", "public-a-b", "public-a b", "public-a/b", "public-a~20b", "t", "..", "."]
    assert len({folder_name(name) for name in names}) == len(names)
    assert [folder_name(name) for name in names[:2]] == names[:2]
    assert folder_name("../x y") == "~2e.~2fx~20y"
    assert folder_name("..") == "~2e."


def kept(*versions: str, form: KeyForm = FORM, is_told: bool = False) -> list[Kept]:
    return [Kept(version=version, is_told=is_told, form=form) for version in versions]


def test_a_table_is_compared_with_all_versions_from_the_bookmarks_on():
    found = base_of([*kept("1", "2", "4"), *kept("3", is_told=True)], FORM, "2", run="5")
    assert found == Base(condition="version >= '2'", versions=2)
    assert base_of(kept("1"), FORM, None, run="5") == Base(
        condition="version in ('1', '5')", versions=None
    )


def test_keys_that_were_written_otherwise_are_never_compared():
    changed = base_of([*kept("1", form=OTHER), *kept("2")], FORM, "1", run="5")
    assert changed == Base(condition="version in ('2', '5')", versions=None)
    # A run in between had another form, and nobody knows how much of it has arrived.
    back = base_of([*kept("1", "3"), *kept("2", form=OTHER)], FORM, "1", run="5")
    assert back == Base(condition="version >= '1' and version not in ('2')", versions=None)


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (
            "jdbc:postgresql://h/a",
            "jdbc:postgresql://me:p@h/a?user=x&password=y",
            "jdbc:postgresql://h/b",
        ),
        (
            "jdbc:sqlserver://h;databaseName=a;user=x",
            "jdbc:sqlserver://h;encrypt=true;databaseName=a",
            "jdbc:sqlserver://h;databaseName=b;user=x",
        ),
        (
            "jdbc:oracle:thin:me/p@//h:1521/a",
            "jdbc:oracle:thin:@//h:1521/a",
            "jdbc:oracle:thin:me/p@//h:1521/b",
        ),
        ("parquet:/lake/", "parquet:/lake", "parquet:/lake2"),
        ("parquet:s3a://b/x@y", "parquet:s3a://b/x@y", "parquet:s3a://c/x@y"),
    ],
)
def test_a_source_is_told_by_its_place_and_not_by_who_asks_it(one, same, other):
    places = [place_of(Settings.from_config({"source_url": url})) for url in (one, same, other)]
    assert places[0] == places[1] != places[2]
