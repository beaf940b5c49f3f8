"""OpenLineage events: what they hold, where they go, and that no run fails for them."""

from __future__ import annotations

import json

import pytest

from singer_spark.pipeline.plugins import Plugin
from singer_spark.runner.lineage import _namespace
from singer_spark.runner.supervisor import ChildError
from tests.support.web import webhook


def events(bench):
    return [json.loads(line) for line in (bench.folder / "events").read_text().splitlines()]


@pytest.fixture
def told(bench):
    command = bench.pipeline().tap.command
    config = {"source_url": "jdbc:postgresql://me:do-not-tell@db:5432/shop?password=do-not-tell"}
    return {"openlineage": str(bench.folder / "events"), "tap": Plugin(command, config)}


def test_a_run_tells_its_start_and_its_end(bench, told):
    result = bench.run(**told)
    start, end = events(bench)

    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    for event in (start, end):
        assert event["run"]["runId"] == result.run_id
        assert event["job"] == {"namespace": "singer-spark", "name": "p"}
        assert event["schemaURL"].endswith("#/$defs/RunEvent")
    assert end["inputs"] == [{"namespace": "postgresql://db:5432/shop", "name": "orders"}]
    (output,) = end["outputs"]
    assert (output["namespace"], output["name"]) == ("target-fake", "orders")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert "do-not-tell" not in json.dumps([start, end])


def test_a_failed_run_tells_why(bench, told):
    bench.write("tap-fake", 'sys.stderr.write("Error: no table\\n")\nsys.exit(3)')
    bench.fail(ChildError, **told)

    last = events(bench)[-1]
    assert last["eventType"] == "FAIL"
    assert last["run"]["facets"]["errorMessage"]["message"].endswith("exit code 3: no table")


def test_the_usual_variables_name_a_server(bench, monkeypatch):
    with webhook() as (url, got):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "do-not-tell")
        bench.run()
    assert [event["eventType"] for event in got] == ["START", "COMPLETE"]
    assert got.paths == ["/hidden/api/v1/lineage"] * 2
    assert got.tokens == ["Bearer do-not-tell"] * 2


@pytest.mark.parametrize("place", ["http://127.0.0.1:9/x", "http://127.0.0.1:99x/", "/nix/nix"])
def test_what_cannot_be_told_is_warned_of_and_no_run_fails(bench, capfd, place):
    bench.run(openlineage=place)
    assert "Warning: the OpenLineage event COMPLETE was not taken" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("place", "namespace"),
    [
        ("s3a://lake/bronze", "s3a://lake/bronze"),
        ("/lake", "file:/lake"),
        ("csv:/data/shop", "csv:/data/shop"),
        ("jdbc:sqlserver://h:1433;databaseName=d;password=x", "sqlserver://h:1433"),
        ("jdbc:oracle:thin:scott/tiger99@//h:1521/x", "oracle:thin:@//h:1521/x"),
        ("jdbc:mysql://u:tiger99/@x@h/db", "mysql://h/db"),
        ("jdbc:mysql://(host=h,password=tiger99)/db", "mysql"),
        (None, "target-x"),
    ],
)
def test_places_are_named_without_secrets(place, namespace):
    told = _namespace(place, "/bin/target-x")
    assert told.startswith(namespace)
    assert "password" not in told
    assert "tiger99" not in told
