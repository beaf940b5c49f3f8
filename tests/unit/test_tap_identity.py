"""What tells a source from others: no login, no option, nor how its address is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from singer_spark.assignment import Assignment
from singer_spark.errors import StateError
from tap_spark_source.plan.source_settings import Identity, place_of
from tap_spark_source.settings import Settings


def place(url: str) -> str:
    return place_of(Settings.from_config({"source_url": url, "source_user": "ann"}))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://DB.example/shop", "jdbc:postgresql://db.example:5432/shop"),
        (
            "jdbc:postgresql://ann:s3cret@db:5433/shop?user=ann&password=s3cret&ssl=true",
            "jdbc:postgresql://db:5433/shop",
        ),
        ("jdbc:mysql://db/shop?password=s3cret", "jdbc:mysql://db:3306/shop"),
        ("jdbc:mariadb://db:3307/shop/", "jdbc:mariadb://db:3307/shop"),
        (
            "jdbc:sqlserver://db;encrypt=true;user=sa;password=s3cret;databaseName=Shop",
            "jdbc:sqlserver://db:1433;databasename=Shop",
        ),
        ("jdbc:oracle:thin:ann/s3cret@//db:1521/XE", "jdbc:oracle:thin:@//db:1521/XE"),
        ("jdbc:oracle:thin:ann/s3cret@db:1521:XE", "jdbc:oracle:thin:@db:1521:XE"),
        ("jdbc:derby:/data/shop;create=true;password=s3cret", "jdbc:derby:/data/shop"),
        ("jdbc:sqlite:shop.db", f"jdbc:sqlite:{Path.cwd()}/shop.db"),
        ("parquet:lake", f"parquet:{Path.cwd()}/lake"),
        ("delta:s3a://key:s3cret@bucket/lake/", "delta:s3a://bucket/lake"),
        ("delta:s3://bucket/lake", "delta:s3a://bucket/lake"),
        ("catalog:unity.sales", "catalog:unity"),
        ("kafka:B:9092,a:9092", "kafka:a:9092,b:9092"),
    ],
)
def test_a_place_is_spelled_in_one_way_and_holds_no_secret(url, expected):
    assert place(url) == expected
    assert "s3cret" not in expected
    assert "ann" not in expected


HERE = {"place": "jdbc:postgresql://db:5432/shop", "id": "postgresql:1/shop"}


def fits(known: dict, **found) -> None:
    run = Assignment(run_id="r", pipeline="orders", source=known)
    Identity(**{"place": "jdbc:postgresql://db:5432/shop", **found}).check(run)


def test_equal_ids_decide_and_places_where_one_has_none():
    fits(HERE, id="postgresql:1/shop", place="jdbc:postgresql://copy:5432/shop")
    fits(HERE, id=None)
    fits({**HERE, "id": None}, id="postgresql:2/shop")
    fits({})


@pytest.mark.parametrize(
    ("known", "found", "change"),
    [
        (HERE, {"id": "postgresql:2/shop"}, "is another database than before"),
        (
            HERE,
            {"place": "jdbc:postgresql://test:5432/shop"},
            "the source is jdbc:postgresql://test:5432/shop, and the state belongs to "
            "jdbc:postgresql://db:5432/shop",
        ),
    ],
)
def test_another_source_is_refused_with_the_ways_on(known, found, change):
    with pytest.raises(StateError) as caught:
        fits(known, **found)
    assert change in caught.value.message
    assert "singer-spark run orders --full" in caught.value.message
    assert "singer-spark state accept orders" in caught.value.message


def test_what_is_appended_is_removed_before_it_is_loaded_anew():
    loads = {"*": {"load_method": "upsert"}, "events": {"load_method": "append-only"}}
    run = Assignment(run_id="r", pipeline="p", loads=loads)
    assert run.ways_on("orders", ["id"]).startswith("load it anew: singer-spark run p --refresh")
    assert run.ways_on("events", ["id"]).startswith("remove the table if it is appended to, th")
    assert run.ways_on().startswith("remove the tables that are appended to, then load every")
    assert Assignment(run_id="r").ways_on().startswith("load everything anew")
