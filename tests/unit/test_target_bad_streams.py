"""Bad and strange streams: one line that says what, where and what to do; never a traceback."""

from __future__ import annotations

import io
import json

import pytest

from singer_spark.errors import SingerSparkError
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import lines, schema

NUMBER = {"type": "integer"}
GOOD = schema("s", {"id": NUMBER}, ["id"])


def message(**members):
    return json.dumps(members) + "\n"


def of_record(text, **more):
    return f'{json.dumps({"type": "RECORD", "stream": "s", **more})[:-1]}, "record": {text}}}\n'


def declaring(name, value):
    return schema("s", {"id": NUMBER, name: value}, ["id"])


STREAMS = {
    "a schema without a stream": (
        [message(type="SCHEMA", schema={"properties": {}})],
        "76 line 1: a SCHEMA needs stream and schema; look at the tap",
    ),
    "a schema that is a list": (
        [message(type="SCHEMA", stream="s", schema=[])],
        "76 line 1: a SCHEMA needs stream and schema; look at the tap",
    ),
    "a schema without properties": (
        [message(type="SCHEMA", stream="s", schema={})],
        "76 stream s: its SCHEMA has no properties; look at the tap",
    ),
    "a property that is null": (
        [declaring("a", None)],
        "65 stream s: its SCHEMA is no valid JSON Schema (properties.a: null is not of types",
    ),
    "a type that is null": (
        [declaring("a", {"type": None})],
        "65 stream s: its SCHEMA is no valid JSON Schema (properties.a.type: null is not valid",
    ),
    "a bound that is a text": (
        [declaring("a", {"type": "integer", "minimum": "5"})],
        '65 stream s: its SCHEMA is no valid JSON Schema (properties.a.minimum: "5" is not of',
    ),
    "properties that are a list": (
        [declaring("a", {"type": "object", "properties": [1]})],
        "65 stream s: its SCHEMA is no valid JSON Schema (properties.a.properties: [1] is not of",
    ),
    "a reference that is a number": (
        [declaring("a", {"$ref": 5})],
        "65 stream s: its SCHEMA is no valid JSON Schema (properties.a.$ref: 5 is not of type",
    ),
    "alternatives that are a number": (
        [schema("s", {"id": {"anyOf": 5}}, ["id"])],
        "65 stream s: its SCHEMA is no valid JSON Schema (properties.id.anyOf: 5 is not of type",
    ),
    "a type of the whole that is a number": (
        [schema("s", {"id": NUMBER}, ["id"], type=5)],
        "65 stream s: its SCHEMA is no valid JSON Schema (type: 5 is not valid",
    ),
    "an unknown type": (
        [declaring("a", {"type": "strng"})],
        '65 stream s: its SCHEMA is no valid JSON Schema (properties.a.type: "strng" is not',
    ),
    "a pattern that is none": (
        [declaring("a", {"type": "string", "pattern": "("})],
        '65 stream s: its SCHEMA is no valid JSON Schema (properties.a.pattern: "(" is not',
    ),
    "a reference to nothing": (
        [declaring("a", {"$ref": "#/definitions/gone"})],
        "65 stream s: its SCHEMA refers to /definitions/gone, which is not in it; look at the tap",
    ),
    "a reference to another place": (
        [declaring("a", {"$ref": "file:///etc/passwd"})],
        "65 stream s: its SCHEMA refers to file:///etc/passwd, which is not in it",
    ),
    "a reference to a server, where no column is declared": (
        [schema("s", {"id": NUMBER}, ["id"], definitions={"a": {"$ref": "http://0.0.0.0:1/a"}})],
        "65 stream s: its SCHEMA is no valid JSON Schema (Resource 'http://0.0.0.0:1/a' is not "
        "present in a registry and retrieving it failed: LookupError: http://0.0.0.0:1/a is not in",
    ),
    "a draft that nobody knows, and a schema of none": (
        [schema("s", {"id": NUMBER, "a": {"type": 5}}, **{"$schema": "http://0.0.0.0:1/a"})],
        "65 stream s: its SCHEMA is no valid JSON Schema (properties.a.type: 5 is not valid",
    ),
    "required that is no list": (
        [schema("s", {"id": NUMBER}, [], required="id")],
        '65 stream s: its SCHEMA is no valid JSON Schema (required: "id" is not of type',
    ),
    "a column without a name": (
        [declaring("o", {"type": "object", "properties": {"": NUMBER}})],
        "65 stream s: a property without a name cannot be a column; rename it with stream_maps",
    ),
    **{
        f"a stream {name}": (
            [schema(name, {"id": NUMBER})],
            f"65 stream {name}: its table would be the folder {folder}, which is no table's; "
            "rename it with stream_maps",
        )
        for name, folder in {
            "_quarantine": "_quarantine",
            "-quarantine": "_quarantine",
            "_singer_spark": "_singer_spark",
            "_Delta_Log": "_delta_log",
            ".delta_log": "_delta_log",
        }.items()
    },
    "a name with a NUL": (
        [declaring("a\0b", NUMBER)],
        "65 stream s: the property 'a\\x00b' has a NUL in its name, which readers of Parquet",
    ),
    "a name with a NUL inside a struct": (
        [declaring("o", {"type": "object", "properties": {"\0line": NUMBER}})],
        "65 stream s: the property '\\x00line' has a NUL in its name, which readers of Parquet",
    ),
    "a name that Hadoop would replace by a setting": (
        [declaring("o", {"type": "object", "properties": {"${fs.s3a.secret.key}": NUMBER}})],
        "65 stream s: the property ${fs.s3a.secret.key} has ${ in its name, which Hadoop would "
        "replace by a setting in Parquet files; rename it with stream_maps",
    ),
    "a name with a NUL in an exact type": (
        [declaring("o", {"x-sql-datatype": "array<struct<`\0`:int>>"})],
        "65 stream s: the property '\\x00' has a NUL in its name, which readers of Parquet",
    ),
    "a tree of references that doubles at every level": (
        [
            schema(
                "s",
                {"id": NUMBER, "a": {"$ref": "#/definitions/d0"}},
                definitions={
                    f"d{n}": {
                        "type": "object",
                        "properties": {name: {"$ref": f"#/definitions/d{n + 1}"} for name in "xy"},
                    }
                    for n in range(40)
                }
                | {"d40": NUMBER},
            )
        ],
        "65 stream s: its SCHEMA has more than 300000 parts, where every $ref counts as all",
    ),
    "alternatives by anchors that double at every level": (
        [
            schema(
                "s",
                {"id": NUMBER, "a": {"$ref": "#d0"}},
                **{
                    "$defs": {
                        f"d{n}": {"$anchor": f"d{n}", "allOf": [{"$ref": f"#d{n + 1}"}] * 2}
                        for n in range(40)
                    }
                    | {"d40": {"$anchor": "d40", **NUMBER}},
                },
            )
        ],
        "65 stream s: its SCHEMA has more than 300000 parts, where every $ref counts as all",
    ),
    "a chain of references": (
        [
            schema(
                "s",
                {"id": NUMBER, "a": {"$ref": "#/definitions/d0"}},
                definitions={f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(5000)}
                | {"d5000": NUMBER},
            )
        ],
        "65 stream s: its SCHEMA, with all that it refers to, is nested deeper than 1200 levels",
    ),
    "a schema that is nested very deeply": (
        [
            '{"type":"SCHEMA","stream":"s","schema":{"properties":{"a":'
            + '{"type":"array","items":' * 3000
            + "{}"
            + "}" * 3000
            + "}}}\n"
        ],
        "65 stream s: its SCHEMA is nested deeper than 1200 levels of JSON; flatten it in the tap",
    ),
    "too many columns": (
        [schema("s", {f"c{n}": NUMBER for n in range(30_001)})],
        "65 stream s: its SCHEMA declares 30001 columns, those inside structs included, and a",
    ),
    "a name of a column that is too long": (
        [declaring("a" * 1001, NUMBER)],
        "65 stream s: the name of the property aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… is longer",
    ),
    "a pattern that doubles Python's time with every letter": (
        [
            declaring("a", {"type": "string", "pattern": "^(a+)+$"}),
            of_record(json.dumps({"id": 1, "a": "a" * 50 + "!"})),
        ],
        "65 stream s, line 2: a breaks the rule pattern: a text does not satisfy ",
    ),
    "such a pattern of names": (
        [
            declaring(
                "a",
                {
                    "type": "object",
                    "patternProperties": {"^(a+)+$": NUMBER},
                    "additionalProperties": False,
                },
            ),
            of_record(json.dumps({"id": 1, "a": {"a" * 50 + "!": 1}})),
        ],
        "65 stream s, line 2: a breaks the rule additionalProperties: ",
    ),
    "a stream whose name is too long": (
        [schema("s" * 300, {"id": NUMBER})],
        "65 stream ssssssssssssssssssssssssssssssssssssssss…: its name is too long for a table",
    ),
    "a key that is a text": (
        [schema("s", {"id": NUMBER}, "id")],
        "76 line 1: key_properties must be a list of names of properties; look at the tap",
    ),
    "a key that is not declared": (
        [schema("s", {"id": NUMBER}, ["nr"])],
        "65 stream s: its SCHEMA does not declare the key nr; look at the tap or set "
        "key_properties in stream_options",
    ),
    "a record before its schema": (
        [of_record("{}")],
        "76 line 1: RECORD of stream 's' came before its SCHEMA; look at the tap",
    ),
    "a RECORD without a record": (
        [GOOD, message(type="RECORD", stream="s")],
        "76 line 2: a RECORD needs a record; look at the tap",
    ),
    "a record that is null": (
        [GOOD, of_record("null")],
        "65 stream s, line 2: the record is no object",
    ),
    "a number of 5000 digits": (
        [GOOD, of_record(f'{{"id": {"9" * 5000}}}')],
        "65 stream s, line 2: a whole number has too many digits for any column; fix the data",
    ),
    "a version beyond 64 bits": (
        [GOOD, of_record('{"id": 1}', version=2**70)],
        "76 line 2 is not a Singer message (Expected `int` <= 9223372036854775807",
    ),
    "a pattern that only the fast validator knows": (
        [declaring("a", {"type": "string", "pattern": r"^\p{L}+$"}), of_record('{"id":1,"a":"5"}')],
        "65 stream s, line 2: a breaks the rule pattern: a text does not satisfy ",
    ),
    "a STATE without a value": (
        [message(type="STATE")],
        "76 line 1: a STATE needs a value; look at the tap",
    ),
    "a STATE that is nested deeply": (
        [f'{{"type":"STATE","value":{"[" * 101}{"]" * 101}}}\n'],
        "65 line 1: a STATE cannot be kept, because it is nested deeper than 100 levels; look at",
    ),
    "a STATE with a number that is too long": (
        [GOOD, of_record('{"id": 1}'), f'{{"type":"STATE","value":{{"a": -{"9" * 4301}}}}}\n'],
        "65 line 3: a STATE cannot be kept, because a whole number has more than 4300 digits; look",
    ),
    "an activation without a version": (
        [GOOD, message(type="ACTIVATE_VERSION", stream="s")],
        "76 line 2: an ACTIVATE_VERSION needs a version; look at the tap",
    ),
    "a BATCH without an encoding": (
        [GOOD, message(type="BATCH", stream="s")],
        "76 line 2: a BATCH of format None cannot be read, only of jsonl and parquet",
    ),
    "a BATCH whose manifest is a number": (
        [GOOD, message(type="BATCH", stream="s", encoding={"format": "jsonl"}, manifest=5)],
        "76 line 2: a BATCH needs a manifest, the list of its files; look at the tap",
    ),
    "a BATCH whose manifest lists an object": (
        [GOOD, message(type="BATCH", stream="s", encoding={"format": "jsonl"}, manifest=[{}])],
        "76 line 2: a BATCH needs a manifest, the list of its files; look at the tap",
    ),
    "a BATCH that names a folder": (
        [
            GOOD,
            message(
                type="BATCH", stream="s", encoding={"format": "jsonl"}, manifest=["file:///tmp"]
            ),
        ],
        "76 line 2: file:///tmp is a folder, where a BATCH names files; look at the tap",
    ),
    "a BATCH that names a folder elsewhere": (
        [
            GOOD,
            message(type="BATCH", stream="s", encoding={"format": "jsonl"}, manifest=["s3://b/a/"]),
        ],
        "76 line 2: s3://b/a/ is a folder, where a BATCH names files; look at the tap",
    ),
    "a BATCH without files": (
        [GOOD, message(type="BATCH", stream="s", encoding={"format": "jsonl"})],
        "76 line 2: a BATCH needs a manifest, the list of its files; look at the tap",
    ),
}


@pytest.mark.parametrize(("messages", "expected"), STREAMS.values(), ids=STREAMS)
def test_a_bad_stream_is_one_clear_error(messages, expected, tmp_path):
    target = TargetSparkDelta(config={"path": str(tmp_path / "lake")})
    with pytest.raises(SingerSparkError) as raised:
        target.listen(io.StringIO(lines(messages)))
    said = f"{raised.value.exit_code} {raised.value.message}"
    assert said.startswith(expected)
    assert "\n" not in said


@pytest.mark.parametrize(
    "messages",
    [
        [""],
        ["\n\n  \n"],
        [lines([GOOD]).replace("\n", "\r\n")],
        [declaring("a", value=True)],
        [declaring("a", {"anyOf": [True, {"type": "null"}]})],
        [declaring("a", {"type": "array", "items": True})],
        [declaring("a", {"$ref": "#/definitions/a"}), "\n"],
        [declaring("a", {"$ref": "#", "items": {"$ref": "#"}})],
        [declaring("a", {"properties": {"b": {"$ref": "#/properties/a"}}})],
        [schema("s", {"id": NUMBER}, ["id", "id"])],
        [message(type="ACTIVATE_VERSION", stream="unknown", version=1)],
        [schema("s", {"id": NUMBER}, **{"$schema": "http://json-schema.org/draft-03/schema#"})],
        [
            schema(
                "s", {"id": NUMBER}, **{"$schema": "http://json-schema.org/draft-04/hyper-schema#"}
            )
        ],
        [schema("s", {"id": NUMBER}, **{"$schema": "http://0.0.0.0:1/schema"})],
        [schema("s", {"id": NUMBER}, **{"$schema": "foo"})],
    ],
    ids=[
        *(
            "empty",
            "blank",
            "crlf",
            "true",
            "in a union",
            "items",
            "loop",
            "itself",
            "within itself",
            "key twice",
            "activate",
        ),
        *("draft 3", "hyper-schema", "schema elsewhere", "no schema"),
    ],
)
def test_a_strange_stream_is_no_error(messages, tmp_path):
    more = {"definitions": {"a": {"$ref": "#/definitions/a"}}}
    messages = [
        {**one, "schema": {**one["schema"], **more}} if isinstance(one, dict) else one
        for one in messages
    ]
    TargetSparkDelta(config={"path": str(tmp_path / "lake")}).listen(io.StringIO(lines(messages)))
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    "odd",
    [
        declaring("a", {"type": None}),
        declaring("a", {"type": "integer", "minimum": "5"}),
        declaring("a", {"type": "object", "properties": [1]}),
        declaring("a", {"$ref": 5}),
        schema("s", {"id": {"anyOf": 5}}, ["id"]),
        schema("s", {"id": NUMBER}, ["id"], required=5, description=5),
        declaring("a", {"type": "string", "format": []}),
    ],
    ids=["type", "bound", "properties", "reference", "alternatives", "required", "format"],
)
def test_without_validation_a_schema_may_be_odd(odd, tmp_path):
    config = {"path": str(tmp_path), "validate_records": False}
    constraints = {"stream_options": {"*": {"required_constraints": True}}}
    TargetSparkDelta(config={**config, **constraints}).listen(io.StringIO(lines([odd])))


def test_scd2_by_a_column_of_ours_that_is_no_time_is_a_settings_error(tmp_path):
    chosen = {"load_method": "scd2", "dedupe_by": "_sdc_sequence"}
    config = {"path": str(tmp_path), "add_record_metadata": True, "stream_options": {"*": chosen}}
    with pytest.raises(SingerSparkError, match="dedupe_by, and _sdc_sequence is bigint") as raised:
        TargetSparkDelta(config=config).listen(io.StringIO(lines([GOOD])))
    assert raised.value.exit_code == 78
