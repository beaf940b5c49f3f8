"""The engine of a run: which pipelines share one, and when it was started for one run alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from singer_spark.engine.lease import ENGINE
from singer_spark.pipeline.file import parse_pipeline
from singer_spark.pipeline.plugins import Plugin
from singer_spark.runner import sharing

TAP = Plugin("tap-spark-source", {"source_url": "jdbc:sqlite:shop.db"})
TARGET = Plugin("target-spark-delta", {"path": "lake"})
PIPELINE = replace(
    parse_pipeline(
        {"name": "shop", "source": {"tap": TAP.command}, "destination": {"target": TARGET.command}},
        folder=Path(),
        env={},
    ),
    tap=TAP,
    target=TARGET,
)


@pytest.fixture(autouse=True)
def no_engines(monkeypatch):
    monkeypatch.delenv(ENGINE, raising=False)
    monkeypatch.setattr(sharing, "shared_engines", list)


def test_what_both_sides_need_is_gathered():
    settings, urls = sharing.needs_of(PIPELINE)
    assert settings.master == "local[*]"
    assert urls == ["jdbc:sqlite:shop.db", "lake"]


@pytest.mark.parametrize(
    "change",
    [
        {"tap": Plugin("tap-github", {})},
        {"target": Plugin("target-spark-delta", {"spark_conf": {"spark.x": "1"}})},
        {
            "tap": Plugin("tap-spark-source", {"spark_remote": "sc://host"}),
            "target": Plugin("target-spark-delta", {"spark_remote": "sc://host"}),
        },
    ],
    ids=["a foreign tap", "not of one mind", "a server of somebody else"],
)
def test_sides_that_cannot_share_start_their_own(change):
    assert sharing.needs_of(replace(PIPELINE, **change)) is None
    assert not sharing.started_cold(replace(PIPELINE, **change))


def test_a_run_without_a_warm_engine_was_cold(monkeypatch):
    assert sharing.started_cold(PIPELINE)
    assert not sharing.started_cold(replace(PIPELINE, engine_idle=900))
    monkeypatch.setattr(sharing, "shared_engines", lambda: ["engine-x"])
    assert not sharing.started_cold(PIPELINE)


POSTGRES, EXTRA = "org.postgresql:postgresql:42.7.13", "org.example:functions:1.0"


def pair(tap, target):
    sides = {"tap": Plugin(TAP.command, tap), "target": Plugin(TARGET.command, target)}
    return replace(PIPELINE, **sides)


@pytest.mark.parametrize(
    ("tap", "target", "both"),
    [
        ({}, {"spark_packages": [EXTRA]}, {"spark_packages": [EXTRA]}),
        ({"spark_packages": [POSTGRES]}, {}, {"spark_packages": [POSTGRES]}),
        (
            {"spark_packages": [POSTGRES]},
            {"spark_packages": [EXTRA, POSTGRES]},
            {"spark_packages": [POSTGRES, EXTRA]},
        ),
        (
            {"spark_jars": ["/a.jar"]},
            {"spark_jars": ["/b.jar"]},
            {"spark_jars": ["/a.jar", "/b.jar"]},
        ),
    ],
)
def test_sides_whose_packages_differ_share_an_engine_that_has_them_all(tap, target, both):
    pipeline = pair(tap, target)
    settings, _ = sharing.needs_of(pipeline)
    assert {name: list(getattr(settings, name[6:])) for name in both} == both
    common = sharing.with_common_jars(pipeline)
    assert common.tap.config == {**tap, **both}
    assert common.target.config == {**target, **both}


@pytest.mark.parametrize(
    ("tap", "target"),
    [
        ({"spark_packages": [EXTRA]}, {"spark_jars": ["/a.jar"]}),
        ({"spark_packages": [EXTRA]}, {"spark_remote": "sc://host"}),
    ],
    ids=["files and packages", "a server of somebody else"],
)
def test_what_cannot_be_joined_stays_as_it_is(tap, target):
    pipeline = pair(tap, target)
    assert sharing.with_common_jars(pipeline) == pipeline
    assert sharing.needs_of(pipeline) is None


def test_others_taps_keep_their_settings():
    foreign = replace(pair({}, {"spark_packages": [EXTRA]}), tap=Plugin("tap-github", {}))
    assert sharing.with_common_jars(foreign) == foreign
