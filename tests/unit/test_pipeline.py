"""Pipeline files: what they say, what is refused, and how a file is found."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from singer_spark.errors import SettingsError
from singer_spark.figures import parse_duration
from singer_spark.pipeline import Alerts, document, load_pipeline

FULL = """
name: shop-orders
source:
  tap: tap-spark-source
  config: {source_url: "jdbc:postgresql://db/shop", source_password: "${PG_PASSWORD}"}
  streams: [public-orders]
destination:
  target: target-spark-delta
  config: {path: "s3a://lake/bronze"}
incremental: {enabled: false}
transport: records
state: s3://lake/elsewhere
schedule: {cron: "*/15 * * * *"}
timeout: 6h
alerts: {max_lag: 2h, empty_runs: 3, spike: 10, slow: 5, max_duration: 30m, error_rate: 0.01,
         webhook: null, command: null}
"""
HIDDEN = "p: 'w' {"
SMALL = """
name: small
source: {tap: tap-x}
destination: {target: target-x, config: {path: lake}}
"""


@pytest.fixture
def load(tmp_path):
    def load(text, **env):
        path = tmp_path / "p.yml"
        path.write_text(textwrap.dedent(text))
        return load_pipeline(path, env)

    return load


def problems_of(load, text, **env):
    with pytest.raises(SettingsError) as caught:
        load(text, **env)
    assert caught.value.exit_code == 78
    assert "\n" not in caught.value.message
    return caught.value.message


def test_the_whole_file_is_understood(load):
    pipeline = load(FULL, PG_PASSWORD=HIDDEN)

    assert pipeline.name == "shop-orders"
    assert pipeline.tap.command == "tap-spark-source"
    assert pipeline.tap.config["source_password"] == HIDDEN
    assert pipeline.streams == ("public-orders",)
    assert pipeline.target.command == "target-spark-delta"
    assert pipeline.target.config == {"path": "s3a://lake/bronze"}
    assert not pipeline.incremental
    assert pipeline.transport == "records"
    assert pipeline.state == "s3://lake/elsewhere"
    assert pipeline.cron == "*/15 * * * *"
    assert pipeline.timeout == 6 * 3600
    assert pipeline.alerts == Alerts(
        max_lag=7200, empty_runs=3, spike=10, slow=5, max_duration=1800, error_rate=0.01
    )


def test_a_small_file_has_defaults(load):
    pipeline = load(SMALL)

    assert pipeline.incremental
    assert pipeline.transport == "auto"
    assert pipeline.streams == ()
    assert pipeline.timeout is None
    assert pipeline.cron is None
    assert pipeline.alerts == Alerts()


def test_state_may_be_a_mapping(load):
    given = "state: {url: 's3://lake/x', endpoint_url: 'http://minio:9000'}\n"
    assert load(SMALL + given).state == {
        "url": "s3://lake/x",
        "endpoint_url": "http://minio:9000",
    }
    for wrong in ("5", "[]", "''", "{}"):
        with pytest.raises(SettingsError, match="state: must be a folder, a URL, or a mapping"):
            load(f"{SMALL}state: {wrong}\n")


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("lake", "lake/.singer-spark/state"),
        ("/lake/", "/lake/.singer-spark/state"),
        ("s3a://lake/bronze", "s3://lake/bronze/.singer-spark/state"),
        ("file:///lake", "file:///lake/.singer-spark/state"),
        ("gs://lake", "gs://lake/.singer-spark/state"),
    ],
)
def test_state_lies_under_the_destination(load, path, state):
    assert load(SMALL.replace("path: lake", f"path: '{path}'")).state == state


def test_state_lies_beside_the_file_where_the_target_has_no_path(load, tmp_path):
    assert load(SMALL.replace("path: lake", "host: db")).state == str(
        tmp_path / ".singer-spark/state"
    )


@pytest.mark.parametrize(
    ("short", "path"),
    [
        ("{bucket: 's3://lake', path: bronze}", "s3a://lake/bronze"),
        ("{bucket: lake, path: /bronze/}", "s3a://lake/bronze"),
        ("{bucket: 's3a://lake/'}", "s3a://lake"),
        ("{bucket: 'gs://lake', path: a/b}", "gs://lake/a/b"),
        ("{bucket: 'file:///lake', path: a}", "file:///lake/a"),
        ("{bucket: /lake, path: a}", "/lake/a"),
    ],
)
def test_the_short_form_names_a_place_for_our_target(load, short, path):
    pipeline = load(f"name: p\nsource: {{tap: t}}\ndestination: {short}\n")

    assert pipeline.target.command == "target-spark-delta"
    assert pipeline.target.config == {"path": path}


def test_the_short_form_passes_compression_on(load):
    pipeline = load(
        "name: p\nsource: {tap: t}\ndestination: {bucket: b, path: x, compression: zstd}\n"
    )
    assert pipeline.target.config == {"path": "s3a://b/x", "compression": "zstd"}
    assert pipeline.state == "s3://b/x/.singer-spark/state"


@pytest.mark.parametrize("name", ["config.json", "config.yml"])
def test_a_config_may_be_a_file_beside_the_pipelines(load, tmp_path, name):
    (tmp_path / name).write_text(
        '{\n\t"path": "lake",\n"url": "a\\/b ${NOT_EXPANDED}"}'
        if name.endswith("json")
        else "path: lake\nurl: a/b ${NOT_EXPANDED}"
    )

    pipeline = load(f"name: p\nsource: {{tap: t}}\ndestination: {{target: x, config: {name}}}\n")
    assert pipeline.target.config == {"path": "lake", "url": "a/b ${NOT_EXPANDED}"}


def test_words_and_dates_in_a_config_stay_the_text_they_are(load):
    pipeline = load(
        SMALL.replace(
            "{tap: tap-x}",
            "{tap: t, config: {snapshot: off, start_date: 2026-01-31, on: yes,"
            " flag: true, n: 5, none: null}}",
        )
    )
    assert pipeline.tap.config == {
        "snapshot": "off",
        "start_date": "2026-01-31",
        "on": "yes",
        "flag": True,
        "n": 5,
        "none": None,
    }


def test_variables_are_filled_in_at_any_depth_and_stay_text(load):
    text = SMALL.replace(
        "{tap: tap-x}", "{tap: t, config: {a: [{b: 'x-${A}-${B}'}], c: '${A}', d: '$${A}'}}"
    )

    assert load(text, A="1", B="${A}").tap.config == {
        "a": [{"b": "x-1-${A}"}],
        "c": "1",
        "d": "${A}",
    }


def test_every_missing_variable_is_named_with_its_key(load):
    message = problems_of(load, FULL + "\nstate_: ${OTHER}\n")

    assert "source.config.source_password: environment variable PG_PASSWORD is not set" in message
    assert "OTHER" in message


def test_all_problems_are_told_at_once(load):
    message = problems_of(
        load,
        """
        name: no/slash
        source: {tap: 5, streams: all, sreams: [a], config: [do-not-tell]}
        destination: {config: {path: x}}
        incremental: {enabled: do-not-tell}
        transport: do-not-tell
        schedule: {cron: "do-not-tell * *"}
        timeout: 90
        alerts: {max_lag: soon, empty_runs: 1.5, spike: -1, error_rate: 2, slow: true, webhook: 3}
        colour: do-not-tell
        """,
    )
    for key in (
        "name:", "source.tap:", "source.streams:", "source.sreams: unknown key", "source.config:",
        "destination.target: is required", "incremental.enabled:", "transport:", "schedule.cron:",
        "timeout:", "alerts.max_lag:", "alerts.empty_runs:", "alerts.spike:", "alerts.error_rate:",
        "alerts.slow:", "alerts.webhook:", "colour: unknown key",
    ):  # fmt: skip
        assert key in message
    assert "do-not-tell" not in message
    assert "known here: tap, config, streams" in message


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("name: small", ""), "name: is required"),
        (("source: {tap: tap-x}", ""), "source.tap: is required"),
        (("source: {tap: tap-x}", "source: tap-x"), "source: must be a mapping"),
        (("{tap: tap-x}", "{tap: t, streams: []}"), "source.streams: must be a list"),
        (("{tap: tap-x}", "{tap: t, config: none.json}"), "source.config: its file cannot be read"),
        (("{tap: tap-x}", "{tap: t, config: {x: .nan}}"), "source.config: holds a value"),
        (("name: small", "name: small\ntimeout: !!binary eA=="), "file: holds a value"),
        (("name: small", "name: small\n5: x"), "5: unknown key"),
        (("config: {path: lake}", "bucket: b"), "destination: give target and config, or bucket"),
        (("target: target-x, config: {path: lake}", "path: x"), "destination.bucket: is required"),
        (("name: small", "name: small\ntimeout: 0s"), "timeout: must be a duration"),
        (("name: small", "name: small\nstate: 5"), "state: must be a folder"),
    ],
)
def test_a_problem_names_its_key(load, change, problem):
    assert problem in problems_of(load, SMALL.replace(*change))


@pytest.mark.parametrize("text", ["", "just text", "[1, 2]", "5"])
def test_a_file_that_is_no_mapping_is_refused(load, text):
    assert "file: must be a mapping" in problems_of(load, text)


@pytest.mark.parametrize(
    "text",
    [
        "name: *do-not-tell",
        "a: b: do-not-tell",
        "name: [do-not-tell",
        "password: @do-not-tell",
        "do-not-tell: 1\ndo-not-tell: 2",
        "name: !!python/object:do-not-tell {}",
    ],
)
def test_broken_yaml_is_told_by_its_place_not_its_text(load, text):
    message = problems_of(load, text)

    assert "not valid near line" in message
    assert "do-not-tell" not in message


def test_an_unreadable_file_is_error_78(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        load_pipeline(tmp_path)
    assert caught.value.exit_code == 78

    (tmp_path / "latin.yml").write_bytes(b"name: \xfc\xff")
    with pytest.raises(SettingsError, match="not valid"):
        load_pipeline(tmp_path / "latin.yml")


def test_secrets_do_not_show_in_a_printed_pipeline(load):
    assert HIDDEN not in repr(load(FULL, PG_PASSWORD=HIDDEN))


@pytest.mark.parametrize("cron", ["0 4 * * MON-FRI", "@daily", "*/5 1,2 * JAN 0"])
def test_a_schedule_is_a_crontab_line(load, cron):
    assert load(SMALL + f"schedule: {{cron: '{cron}'}}\n").cron == cron


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6h", 21600),
        ("30m", 1800),
        ("90s", 90),
        ("1h30m", 5400),
        ("2d", 172800),
        ("", None),
        ("0s", None),
        ("5", None),
        (5, None),
        ("1.5h", None),
        ("h", None),
        ("-1h", None),
    ],
)
def test_durations_have_units(text, seconds):
    assert parse_duration(text) == seconds


def test_the_file_in_the_readme_fits_the_schema(load):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = readme.split("A pipeline file:\n\n```yaml\n")[1].split("```")[0]
    assert load(shown, SHOP_PASSWORD=HIDDEN).keep_runs == 1000


def test_the_schema_says_what_each_key_is_for():
    schema, _ = document._schema()
    for section in (schema, *schema["properties"].values()):
        for key, one in section.get("properties", {}).items():
            assert "description" in one or "properties" in one or "$ref" in one, key
