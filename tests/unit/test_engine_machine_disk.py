"""Whether Spark shares this machine's disk: known of our own engine, asked of others' servers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from singer_spark.engine import machine
from singer_spark.settings import SparkSettings

REMOTE = SparkSettings.from_config({"spark_remote": "sc://host"})


class FakeSpark:
    """A server that copies a file as Spark does: here, elsewhere, or not at all."""

    def __init__(self, master="local[*]", way="here"):
        self.conf = {"spark.master": master}
        self.read = self.write = self
        self._way, self.asked = way, 0

    def text(self, place):
        self.asked += 1
        path = Path(place.removeprefix("file://"))
        if self._way == "nowhere":
            raise OSError(place)
        if path.name == "word":
            self._word = path
            return self
        path.mkdir()
        if self._way == "here":
            shutil.copy(self._word, path / "part-0")
        return None


@pytest.fixture(autouse=True)
def _restored():
    yield
    machine.expect_disk(SparkSettings.from_config({}))


def answer(spark, settings=REMOTE, folders=()):
    machine.expect_disk(settings)
    machine.ask_for_disk(spark, folders)
    return machine.shares_disk()


def test_an_engine_of_ours_on_this_machine_is_not_asked(tmp_path):
    spark = FakeSpark()
    assert answer(spark, SparkSettings.from_config({}), [tmp_path])
    assert spark.asked == 0


def test_a_cluster_does_not_share_it_however_near_it_is(tmp_path):
    cluster = SparkSettings.from_config({"spark_master": "spark://127.0.0.1:7077"})
    assert not answer(FakeSpark(), cluster, [tmp_path])
    assert not answer(FakeSpark("spark://127.0.0.1:7077"), REMOTE, [tmp_path])


@pytest.mark.parametrize(
    ("way", "shared"), [("here", True), ("elsewhere", False), ("nowhere", False)]
)
def test_a_server_of_one_process_is_asked_by_a_file(tmp_path, way, shared):
    deep = tmp_path / "not" / "there"
    assert answer(FakeSpark(way=way), REMOTE, [tmp_path, deep]) is shared
    assert not list(tmp_path.iterdir()), "nothing is left, and nothing was made"


def test_once_it_is_known_nobody_asks_again(tmp_path):
    spark = FakeSpark(way="elsewhere")
    assert not answer(spark, REMOTE, [tmp_path])
    asked = spark.asked
    machine.ask_for_disk(spark, [tmp_path])
    assert spark.asked == asked


def test_before_it_can_be_asked_a_server_shares_nothing():
    machine.expect_disk(REMOTE)
    assert not machine.shares_disk()
