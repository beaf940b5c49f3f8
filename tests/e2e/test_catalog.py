"""Tables of Spark's own catalog, which each process finds again with a Spark of its own."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from singer_spark.engine.lease import ENGINE
from tests.support.commands import command, run, write_json

HIVE = "spark.hadoop.javax.jdo.option.ConnectionURL"


@pytest.mark.slow
@pytest.mark.parametrize("has_metastore", [False, True], ids=["in memory", "metastore"])
def test_runs_with_engines_of_their_own_load_one_table(tmp_path, monkeypatch, has_metastore):
    monkeypatch.delenv(ENGINE, raising=False)
    conf = {"spark.sql.warehouse.dir": "lake"}
    if has_metastore:
        conf[HIVE] = f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
        conf["spark.hadoop.datanucleus.schema.autoCreateAll"] = "true"
        conf["spark.hadoop.hive.metastore.schema.verification"] = "false"
    options = {"orders": {"key_properties": ["id"]}, "events": {"new_files": True}}
    tap = {"source_url": f"json:{tmp_path}/source", "stream_options": options, "spark_conf": conf}
    target = {"catalog": "Spark_Catalog", "default_target_schema": "bronze", "spark_conf": conf}
    pipeline = {
        "name": "shop",
        "source": {"tap": "tap-spark-source", "config": tap},
        "destination": {"target": "target-spark-delta", "config": target},
        "state": str(tmp_path / "state"),
    }
    path = tmp_path / "shop.yml"
    write_json(path, pipeline)
    for number in range(2):
        for stream in options:
            file = tmp_path / "source" / stream / f"{number}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"id": number, "run": number}) + "\n")
        done = run(command("singer-spark"), "run", path, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for stream in options:
        rows = DeltaTable(str(tmp_path / "lake" / "bronze.db" / stream)).to_pyarrow_table()
        assert sorted(rows["id"].to_pylist()) == [0, 1], stream
    assert not list(tmp_path.glob("metastore_db"))
