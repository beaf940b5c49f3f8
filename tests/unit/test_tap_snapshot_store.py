"""Where comparisons are kept."""

from __future__ import annotations

from tap_spark_source.ways.snapshot_store import folder_name


def test_two_streams_never_share_a_folder():
    names = ["public-a_b", "public-a-b", "public-a b", "public-a/b", "public-a~20b", "t", "..", "."]
    assert len({folder_name(name) for name in names}) == len(names)
    assert [folder_name(name) for name in names[:2]] == names[:2]
    assert folder_name("../x y") == "~2e.~2fx~20y"
    assert folder_name("..") == "~2e."
