"""Messages that nobody meant well: each ends as a row, in quarantine, or as one clear error.

Hypothesis prints what to repeat a failure by.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from contextlib import ExitStack, redirect_stdout
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from singer_spark.engine.lease import hold
from singer_spark.errors import SingerSparkError
from singer_spark.names import literal, quote
from singer_spark.types import to_ddl
from target_spark_delta import target
from target_spark_delta.intake import segments
from target_spark_delta.intake.batch_files import local_path
from target_spark_delta.methods.replace import _in_scope
from target_spark_delta.rows.values import misfit, typed, wire_type
from target_spark_delta.target import TargetSparkDelta
from tests.support.hostile import NAMES, bare_sql
from tests.unit.test_target_streams import DoneLanes

SIZES = pytest.mark.parametrize("examples", [80, pytest.param(1000, marks=pytest.mark.slow)])
BOUNDED = settings(
    # To shrink what fails takes minutes; what is printed repeats it.
    phases=[Phase.explicit, Phase.generate],
    deadline=timedelta(seconds=30),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MEMBERS = {*segments.MEMBERS, "version", "time_extracted", "record"}
# Data, protocol and settings: what the input may be to blame for.
EXIT_CODES = {65, 76, 78}
RESERVED = {"_quarantine", "_singer_spark", "_delta_log"}
BOMB = "^(a+)+$"
SECRET = b"nobody may read this"

odd_names = st.sampled_from(
    [*NAMES, "", "\0line", "id", "ID", "#", "!", "__proto__", "_sdc_deleted_at"]
)
names = odd_names | st.text(max_size=8)
streams = st.sampled_from(
    ["s", "S", "..", "/etc/passwd", "../../x", *RESERVED, ".delta_log", *NAMES]
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([*NAMES, "NaN", "a" * 40 + "!", "2024-01-01T00:00:00Z", 10**400, -(10**30)])
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(
    ["integer", "number", "string", "boolean", "object", "array", "null", "strng", None, 5]
)
keywords = {
    "type": kinds | st.lists(kinds, max_size=3),
    "format": st.sampled_from(["date-time", "date", "time", "regex", "singer.decimal", "x", 5]),
    "pattern": st.sampled_from([BOMB, "(", r"^\p{L}+$", "(?=a)(a|aa)+$", ""]),
    "enum": st.lists(leaves, max_size=2),
    "minimum": leaves,
    "multipleOf": st.sampled_from([0.01, 0, -1, "x", 1e-38]),
    "precision": st.integers(-2, 60),
    "$ref": st.sampled_from(
        ["#/definitions/a", "#/properties/id", "#", "#/definitions/none", "file:///etc/passwd", 5]
    ),
    "x-sql-datatype": st.sampled_from(
        ["decimal(20,5)", "binary", "struct<`a``b`:int>", "map<int,array<string>>", "map<", ")", 5]
    ),
    "required": st.lists(names, max_size=2) | st.just("id"),
    "uniqueItems": st.booleans(),
    "additionalProperties": st.booleans(),
}


def rules(inner):
    within = {
        "properties": st.dictionaries(names, inner, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from([BOMB, "x"]), inner, max_size=1),
        "items": inner,
        "anyOf": st.lists(inner, max_size=2),
        "allOf": st.lists(inner, max_size=2),
        "not": inner,
    }
    return st.fixed_dictionaries({}, optional={**keywords, **within})


schemas = st.recursive(
    st.sampled_from([{"type": "integer"}, {"type": ["string", "null"]}, {}, True, None])
    | st.fixed_dictionaries({}, optional=keywords),
    rules,
    max_leaves=6,
)
whole = st.fixed_dictionaries(
    {"properties": st.dictionaries(names, schemas, max_size=4).map(lambda p: {"id": {}, **p})},
    optional={"definitions": st.dictionaries(st.just("a"), schemas), **keywords},
)
# What our own tap says of a read, by somebody else.
told = values | st.fixed_dictionaries(
    {},
    optional={
        "read": st.fixed_dictionaries(
            {"rows": st.sampled_from(["all", "range", "range", "some", 5])},
            optional={
                "column": st.sampled_from(["id", "id", "none", 5]) | names,
                **dict.fromkeys(("from", "to", "nulls", "why"), leaves),
            },
        ),
        "engine": st.sampled_from(
            ["engine-x", "../../x", "engine-../x", "engine-\0", "engine-x\n", "/", "", 5, *NAMES]
        ),
        "stream": names,
        "rows": leaves,
    },
)
files = st.sampled_from(
    [
        *("{root}/in/good", "file://{root}/in/good", "{root}/outside", "file:{root}/outside"),
        *("{root}/in/../outside", "file://{root}/in/%2e%2e/outside", "{root}/in/link"),
        *("{root}/in/pipe", "{root}/in", "{root}/in/none", "{root}/in/{good,../outside}"),
        *(
            "/etc/passwd",
            "FILE:///etc/passwd",
            "http://0.0.0.0:1/x",
            "s3://b/x",
            "jdbc:x",
            "s3://[",
        ),
        *("", "\0", "{root}/in/good\0", "a" * 5000, 5),
    ]
)
bodies = {
    "BATCH": st.fixed_dictionaries(
        {
            "encoding": st.fixed_dictionaries(
                {"format": st.sampled_from(["jsonl", "jsonl", "parquet", "csv", 5])},
                optional={"compression": st.sampled_from(["gzip", "none", "x", 5])},
            )
            | leaves,
            "manifest": st.lists(files, max_size=2) | files | leaves,
        },
        optional={"singer_spark": told, "version": leaves, "time_extracted": leaves},
    ),
    "SCHEMA": st.fixed_dictionaries(
        {"schema": whole},
        optional={
            "key_properties": st.sampled_from([[], ["id"], ["none"], "id", [5]]),
            "bookmark_properties": st.sampled_from([[], ["id"], 5, ["none"]]),
            "singer_spark": told,
        },
    ),
    "RECORD": st.fixed_dictionaries(
        {"record": st.dictionaries(names, values, max_size=4) | values},
        optional={
            "version": st.integers(-(2**70), 2**70) | leaves,
            "time_extracted": leaves,
            "!": values,
            "#": values,
            "~": values,
            "@": values,
        },
    ),
    "STATE": st.fixed_dictionaries(
        {},
        optional={
            "value": values
            | st.fixed_dictionaries({"bookmarks": st.dictionaries(streams, values, max_size=3)})
        },
    ),
    "ACTIVATE_VERSION": st.fixed_dictionaries({}, optional={"version": leaves}),
}
messages = st.one_of(
    *(
        st.builds(lambda stream, body, kind=kind: {"type": kind, "stream": stream, **body}, *parts)
        for kind, parts in ((kind, (streams, body)) for kind, body in bodies.items())
    )
)
tidy = st.builds(
    lambda properties, records: [
        {
            "type": "SCHEMA",
            "stream": "s",
            "schema": {"properties": {"id": {"type": "integer"}, **properties}},
            "key_properties": ["id"],
        },
        *({"type": "RECORD", "stream": "s", **body} for body in records),
    ],
    st.dictionaries(names, schemas, max_size=3),
    st.lists(bodies["RECORD"], min_size=1, max_size=4),
)
batched = st.builds(
    lambda batches: [{"type": "BATCH", "stream": "s", **body} for body in batches],
    st.lists(bodies["BATCH"], min_size=1, max_size=3),
)
bombs = st.sampled_from(
    [
        b'{"type":"STATE","value":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"type":"STATE","value":{"bookmarks":{"s":' + b"[" * 600 + b"]" * 600 + b"}}}",
        b'{"type":"STATE","value":' + b"9" * 5000 + b"}",
        b'{"type":"STATE","value":{"a":1e999999999,"a":"\\ud800"}}',
        b'{"type":"RECORD","stream":"s","record":' + b"[" * 200_000,
        b'{"type":"RECORD","stream":"s","record":{"id":' + b"[" * 3000 + b"]" * 3000 + b"}}",
        b'{"type":"RECORD","stream":"s","record":{"id":1,"id":"x","a":1e999999999}}',
        b'{"type":"RECORD","stream":"s","record":{"id":1},"record":{"id":2}}',
        b'{"type":"RECORD","stream":"s","record":{"id":"\\ud800","\\ud800":1}}',
        b'{"type":"RECORD","stream":"\\ud800","record":{"id":1}}',
        b'{"type":"RECORD","stream":"s","record":{"id":1},"time_extracted":"\\u0000"}',
        b'{"type":"SCHEMA","stream":"s","schema":{"properties":{"id":{}},"type":"object"},"type":"X"}',
        b'{"type":"SCHEMA","stream":"s","schema":{"properties":{"a":{"enum":'
        + b"[" * 900
        + b"]" * 900
        + b"}}}}",
    ]
)
lines = messages.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=30) | bombs


class Run:
    """One run of the target without Spark, and all that it left."""

    def __init__(self, given_lines, **config):
        self.segments, self.manifests, self.error, self.sinks = [], [], None, {}
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stands_in:
            self.root = Path(folder)
            self._lay_out()
            for place, name, other in (
                (segments.Segment, "remove", lambda one: self._keep(one)),
                (target, "Lanes", DoneLanes),
                (target, "hold_engine", lambda _, __, engine: hold(None, engine)),
            ):
                stands_in.enter_context(mock.patch.object(place, name, other))
            try:
                config = {"path": f"{folder}/lake", "temp_dir": f"{folder}/spool", **config}
                config |= {"batch_roots": [f"{folder}/in"], "clean_up_batch_files": True}
                plugin = TargetSparkDelta(config=config)
                self.sinks = plugin._sinks
                given = b"\n".join(given_lines).replace(b"{root}", folder.encode())
                with redirect_stdout(out):
                    plugin.listen(io.BytesIO(given))
            except SingerSparkError as error:
                self.error = error
            finally:
                self.files = {path.name for path in self.root.iterdir()}
                self.outside = (self.root / "outside").read_bytes()
                self.inside = {path.name for path in (self.root / "in").iterdir()}
        out.seek(0)
        self.states = out.read().splitlines()

    def _lay_out(self):
        """Make files that a BATCH may name, and such that it may not."""
        (self.root / "in").mkdir()
        (self.root / "in" / "good").write_text('{"id": 1}\n')
        (self.root / "outside").write_bytes(SECRET)
        (self.root / "in" / "link").symlink_to(self.root / "outside")
        os.mkfifo(self.root / "in" / "pipe")

    def _keep(self, segment):
        if segment.manifest:
            places = [local_path(url).resolve() for url in segment.manifest.files]
            self.manifests += [str(path.relative_to(self.root.resolve())) for path in places]
        else:
            self.segments.append((segment, segment.path.read_bytes().splitlines()))

    def check(self):
        """See that every outcome is one of ours."""
        if self.error is not None:
            assert self.error.exit_code in EXIT_CODES
            assert "\n" not in self.error.message
            assert "Traceback" not in self.error.message
        assert self.files <= {"spool", "in", "outside"}
        assert self.outside == SECRET
        assert {"link", "pipe"} <= self.inside <= {"link", "pipe", "good"}
        assert {*self.manifests} <= {"in/good"}
        for text in self.states:
            json.loads(text)
        for segment, found in self.segments:
            assert len(found) == segment.rows
            pairs = [json.loads(line, object_pairs_hook=list) for line in found]
            for line in pairs:
                members = [name for name, _ in line]
                assert len(members) == len(set(members))
                assert set(members) <= MEMBERS
            assert sum(any(n == "!" for n, _ in line) for line in pairs) == segment.rejected
        for sink in self.sinks.values():
            self._check_destination(sink.destination)

    def _check_destination(self, destination):
        table, aside = Path(destination.table.path), Path(destination.quarantine.path)
        assert table.parent == self.root / "lake"
        assert table.name.lower() not in RESERVED
        assert aside.parent == self.root / "lake" / "_quarantine"
        scope = destination.scope
        if scope and (scope.column is None or scope.column in destination.declared.names):
            assert "reflect" not in bare_sql(_in_scope(scope, destination.declared)("t."))
        assert bare_sql(literal(destination.comment or "")).strip() == ""
        for field in destination.declared:
            place = f"record.{quote(field.name)}"
            kind = field.dataType
            for sql in (
                to_ddl(kind, comments=True),
                to_ddl(wire_type(kind)),
                typed(place, kind, kind, field.name, "1"),
                misfit(place, quote(field.name), kind, kind, field.name),
            ):
                assert "reflect" not in bare_sql(sql)
                assert "--" not in bare_sql(sql)


@SIZES
def test_any_lines_are_rows_or_one_clear_error(examples):
    @settings(BOUNDED, max_examples=examples)
    @given(st.lists(lines, max_size=8), st.booleans(), st.booleans())
    def ends_well(given_lines, validates, quarantines):
        on_invalid = "quarantine" if quarantines else "fail"
        Run(given_lines, validate_records=validates, on_invalid_record=on_invalid).check()

    ends_well()


@SIZES
def test_every_record_of_a_sound_stream_is_a_row_or_in_quarantine(examples):
    @settings(BOUNDED, max_examples=examples)
    @given(tidy, st.booleans())
    def ends_well(given_messages, validates):
        texts = [json.dumps(one).encode() for one in given_messages]
        run = Run(texts, validate_records=validates, on_invalid_record="quarantine")
        run.check()
        if run.error is None:
            assert sum(segment.rows for segment, _ in run.segments) == len(texts) - 1

    ends_well()


@SIZES
def test_flattening_maps_and_methods_change_nothing_of_that(examples):
    methods = ["append-only", "overwrite", "scd2", "delete-insert", "range"]

    @settings(BOUNDED, max_examples=examples)
    @given(tidy, st.sampled_from(methods), st.booleans(), told)
    def ends_well(given_messages, method, flattens, scope):
        maps = {"flattening_enabled": True, "flattening_max_depth": 3} if flattens else {}
        maps = maps or {"stream_maps": {"s": {"copied": "str(id)"}}}
        chosen = {"load_method": method}
        if method == "range":
            chosen = {"load_method": "delete-insert", "range_column": "id"}
        given_messages[0]["singer_spark"] = scope
        texts = [json.dumps(one).encode() for one in given_messages]
        options = {"stream_options": {"*": chosen}}
        Run(texts, on_invalid_record="quarantine", **options, **maps).check()

    ends_well()


@SIZES
def test_a_batch_reads_and_removes_files_of_its_place_alone(examples):
    @settings(BOUNDED, max_examples=examples)
    @given(tidy, batched)
    def ends_well(given_messages, batches):
        texts = [json.dumps(one).encode() for one in [given_messages[0], *batches]]
        Run([*texts, b'{"type":"STATE","value":{"bookmarks":{"s":1}}}']).check()

    ends_well()
