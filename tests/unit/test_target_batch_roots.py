"""Which files a BATCH message may name."""

from __future__ import annotations

import os

import pytest

from singer_spark.errors import ProtocolError
from target_spark_delta.intake.batch_files import (
    BatchRoots,
    parse_manifest,
    remove_files,
    spark_url,
)


@pytest.fixture
def inside(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good").write_text("{}")
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "in-evil").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    return folder


def refused(root, url: str) -> bool:
    body = {"encoding": {"format": "jsonl"}, "manifest": [url]}
    try:
        parse_manifest(body, 1, BatchRoots([root]))
    except ProtocolError:
        return True
    return False


def test_files_below_a_root_are_read(inside):
    for root in (str(inside), inside.as_uri(), f"{inside}/"):
        assert not refused(root, str(inside / "good"))
        assert not refused(root, (inside / "good").as_uri())


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "{in}/../outside",
        "file://{in}/%2e%2e/outside",
        "{in}/link",
        "{in}-evil",
        "{in}/pipe",
        "{in}",
        "{in}/none",
        "{in}/a\0b",
        "s3://bucket/x",
        "http://host/x",
        "http://[/x",
    ],
)
def test_nothing_else_is_read_nor_removed(inside, name):
    url = name.replace("{in}", str(inside))
    assert refused(str(inside), url)
    if "[" not in url and "\0" not in url:
        assert not BatchRoots([str(inside)]).may_remove(url)


@pytest.mark.parametrize(
    ("url", "is_held"),
    [
        ("s3://lake/in/1", True),
        ("s3a://lake/in/1", True),
        ("s3://lake/in-evil/1", False),
        ("s3://other/in/1", False),
        ("gs://lake/in/1", False),
        ("s3://lake/in/../x", False),
        ("s3://lake/in/%2e%2e/x", False),
        ("/lake/in/1", False),
    ],
)
def test_a_prefix_holds_what_lies_below_it(url, is_held):
    assert BatchRoots(["s3://lake/in"]).holds(url) is is_held


def test_spark_never_takes_a_name_for_a_pattern():
    assert spark_url("s3://lake/in/1") == "s3a://lake/in/1"
    with pytest.raises(ProtocolError):
        spark_url("s3://lake/in/{1,../../x}")


def test_without_roots_files_are_read_with_one_warning_and_none_is_removed(inside, caplog):
    roots = BatchRoots()
    file = str(inside.parent / "outside")
    roots.check(file, 1)
    roots.warn_once(cleans_up=True)
    roots.warn_once(cleans_up=True)
    assert len(caplog.records) == 1
    remove_files([file], roots)
    assert (inside.parent / "outside").exists()
    remove_files([file], BatchRoots([str(inside.parent)]))
    assert not (inside.parent / "outside").exists()
