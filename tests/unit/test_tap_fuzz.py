"""What the tap is given by those who mean no good: settings, catalogs, states.

Each ends as messages, or as one clear error. Hypothesis prints what to repeat a failure by.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from contextlib import ExitStack, redirect_stdout
from datetime import timedelta
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from singer_spark.errors import SingerSparkError
from tap_spark_source import stream, tap
from tap_spark_source.dialects import dialect_of
from tap_spark_source.dialects.statements import KeyNames, SparkSQL
from tap_spark_source.plan.key import Survey
from tap_spark_source.plan.table import Column, Table
from tap_spark_source.readers import marks
from tap_spark_source.tap import CONFIG_JSONSCHEMA, TapSparkSource
from tests.support.hostile import NAMES, bare_sql
from tests.unit.test_target_fuzz import SIZES, leaves, names, schemas, values

BOUNDED = settings(
    phases=[Phase.explicit, Phase.generate],
    deadline=timedelta(seconds=30),
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
# Data, source, state, transient and settings.
EXIT_CODES = {65, 69, 74, 78}
DATABASES = ("x", "postgresql", "derby", "mysql", "mariadb", "sqlserver", "oracle", "sqlite")
DIALECTS = [*(dialect_of(f"jdbc:{name}:") for name in DATABASES), SparkSQL()]
NAME = r"`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|\[(?:[^\]]|\]\])*\]"
# Texts in which a backslash means what follows it, and texts where it is a sign like others.
ESCAPED = re.compile(rf"{NAME}|'(?:[^'\\]|\\.|'')*'", re.DOTALL)
PLAIN = re.compile(rf"{NAME}|'(?:[^']|'')*'", re.DOTALL)
KINDS = {
    "id": "bigint",
    "at": "timestamp",
    "day": "date",
    "price": "decimal(20,5)",
    "any": "string",
    "code": "string",
    "bytes": "binary",
    NAMES[2]: "int",
}
ENDS = {"timestamp": "2024-01-01T00:00:00.000000+00:00", "date": "2024-01-01", "binary": "AA=="}
TABLE = Table(
    stream="t",
    name="t",
    schema="s",
    keys=("id",),
    columns=tuple(
        Column(
            name=name,
            datatype=kind,
            schema={"format": "x-singer.decimal"} if name == "any" else {"type": "string"},
        )
        for name, kind in KINDS.items()
    ),
)
chosen = st.sampled_from([*KINDS, *KINDS, ["at", "id"], ["id"], [], "none", 5])
bounds = leaves | st.sampled_from(
    [
        *(
            "1",
            "1 or 1=1",
            "1) --",
            "'",
            "\\'; drop table t; --",
            "1e999999999",
            "1_0",
            " 1",
            "\u0661",
        ),
        *("2024-01-01", "2024-01-01T00:00:00+00:00", "2024-99-99T99:99:99", "now", "AA==", "AA"),
        *(
            "\u0661",
            "9" * 5000,
            "1e-999999999",
            "0x10",
            "nan",
            10**30,
            -(10**400),
            1e308,
            [1, 2],
            {},
        ),
    ]
)
bookmarks = values | st.fixed_dictionaries(
    {},
    optional={
        "replication_key": chosen,
        "replication_key_value": bounds | st.lists(bounds, max_size=2),
        "full_table": st.fixed_dictionaries(
            {},
            optional={
                "version": leaves,
                "key": bounds | st.lists(bounds, max_size=2),
                "key_columns": leaves | st.just(["id"]),
            },
        )
        | leaves,
        "at_bookmark": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("rows", "digest", "version", "form"), leaves)
        )
        | values,
        **dict.fromkeys(
            ("delta_version", "delta_snapshot", "offsets", "files", "snapshot", "progress_markers"),
            values,
        ),
    },
)
states = values | st.fixed_dictionaries(
    {"bookmarks": values | st.dictionaries(st.just("t") | names, bookmarks, max_size=2)},
    optional={"currently_syncing": leaves},
)
options = st.fixed_dictionaries(
    {},
    optional={
        "replication_key": chosen,
        "replication_method": st.sampled_from(["INCREMENTAL", "FULL_TABLE", "LOG_BASED", "x"]),
        "partition_column": st.sampled_from([*KINDS, "none"]),
        "start_value": bounds,
        "lookback": st.sampled_from([0, 5, 1e308]),
        "null_replication_key": st.sampled_from(["include", "exclude", "fail"]),
    },
)
metadata = st.fixed_dictionaries(
    {"breadcrumb": st.just([]) | st.lists(names, max_size=3) | leaves},
    optional={
        "metadata": values
        | st.fixed_dictionaries(
            {},
            optional={
                "selected": leaves,
                "replication-method": st.sampled_from(["INCREMENTAL", "FULL_TABLE", "x", 5]),
                "replication-key": chosen,
                "table-key-properties": st.sampled_from([["id"], ["none"], "id", [5], 5]),
                "schema-name": names,
                "inclusion": st.sampled_from(["available", "automatic", "unsupported", "x", 5]),
            },
        )
    },
)
entries = st.fixed_dictionaries(
    {"tap_stream_id": st.just("t") | names | leaves},
    optional={
        "schema": st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from([*KINDS, "none"]), schemas)}
        )
        | values,
        "metadata": st.lists(metadata, max_size=3) | values,
        "key_properties": st.sampled_from([["id"], ["none"], "id", [5], 5]),
        "replication_key": chosen,
        "replication_method": leaves,
        "stream": names,
        "table_name": leaves,
    },
)
catalogs = values | st.fixed_dictionaries({"streams": st.lists(entries, max_size=2) | values})


def spark_says(_, expressions):
    """See that no expression has SQL of others; of times Spark knows a few."""
    for sql in expressions:
        assert not {"reflect", "drop", "--"} & set(re.findall(r"\w+|--", bare_sql(sql)))
        if not any(end in sql for end in ENDS.values()):
            raise ValueError("is no time that the calendar has")
    return [False if " > " in sql else ENDS["timestamp"] for sql in expressions]


class Source:
    """One table, and what every database would be asked of it."""

    can_slice, spark = True, None

    def discover(self):
        return [TABLE]

    def prefetch(self, places):
        list(places)

    def find(self, place):
        return TABLE if place.stream == "t" else None

    def describe(self, table, expression):
        del table
        return Column(name=expression, datatype="bigint", schema={}, sql=expression)

    def sorts_as_spark(self, table, column):
        return bool(table and column)

    def count(self, plan, piece=None):
        return len(self.frame(plan, piece))

    def frame(self, plan, piece=None):
        for limits in piece.ranges if piece else ():
            self._ask(plan.key, limits)
        return [{"id": 1}]

    def resent(self, plan, piece):
        self.frame(plan, piece)

    def survey(self, plan, key, reach):
        del plan
        self._ask(key, reach.limits)
        mark = tuple(ENDS.get(part.datatype, "1") for part in key.parts)
        return Survey(marks=((1, mark),), highest=mark)

    def _ask(self, key, limits):
        for dialect in DIALECTS:
            sql = KeyNames.in_table(dialect, key).within(limits)
            escapes = type(dialect).__name__ in ("MySQL", "MariaDB", "SparkSQL")
            bare = (ESCAPED if escapes else PLAIN).sub(" ", sql)
            for sign in ("reflect", "drop", "--", ";", "'", '"', "or 1"):
                assert sign not in bare, (type(dialect).__name__, sql)


class Reading:
    def __init__(self, *_, **__):
        pass

    def blocks(self):
        yield b'{"type":"RECORD","stream":"t","record":{"id":1}}\n', 1

    def records(self):
        yield {"id": 1}


def run(config, state, catalog):
    """Run the tap as its command does; return what it wrote, and how it ended."""
    out, error = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), None
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stands_in:
        for place, name, other in (
            (tap, "open_source", lambda _: Source()),
            (stream, "Records", Reading),
            (marks, "_texts", spark_says),
        ):
            stands_in.enter_context(mock.patch.object(place, name, other))
        files = {}
        for name, value in (("state", state), ("catalog", catalog)):
            if value is not None:
                files[name] = str(Path(folder) / name)
                Path(files[name]).write_text(json.dumps(value), encoding="utf-8")
        try:
            with redirect_stdout(out):
                given_config = tap._ConfigInput(config={"source_url": "csv:/x", **config})
                TapSparkSource.invoke(config=given_config, **files)
        except SingerSparkError as found:
            error = found
    out.seek(0)
    return out.read().splitlines(), error


def check(written, error):
    for line in written:
        assert json.loads(line)["type"] in ("SCHEMA", "RECORD", "STATE", "ACTIVATE_VERSION")
    if error is not None:
        assert error.exit_code in EXIT_CODES
        assert "Traceback" not in error.message


@SIZES
def test_any_state_is_read_on_from_or_one_clear_error(examples):
    @settings(BOUNDED, max_examples=examples)
    @given(states, options)
    def ends_well(state, chosen_options):
        check(*run({"stream_options": {"t": chosen_options}}, state, None))

    ends_well()


@SIZES
def test_any_catalog_chooses_streams_or_is_one_clear_error(examples):
    @settings(BOUNDED, max_examples=examples)
    @given(catalogs, st.none() | states)
    def ends_well(catalog, state):
        check(*run({}, state, catalog))

    ends_well()


@SIZES
def test_any_settings_are_taken_or_one_clear_error(examples):
    known = [name for name in CONFIG_JSONSCHEMA["properties"] if name != "source_url"]

    @settings(BOUNDED, max_examples=examples)
    @given(st.dictionaries(st.sampled_from(known), bounds | values, max_size=2))
    def ends_well(config):
        check(*run(config, None, None))

    ends_well()
