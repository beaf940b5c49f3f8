"""Records that nobody meant well, through Spark: each is a row, in quarantine, or an error."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from singer_spark.errors import SingerSparkError
from tests.support.hostile import NAMES
from tests.support.singer import Loaded, record, schema
from tests.unit.test_target_fuzz import EXIT_CODES, values

SAFE = [name for name in NAMES if "${" not in name]
kinds = st.sampled_from(
    [
        {"type": ["integer", "null"]},
        {"type": "string", "format": "date-time"},
        {},
        {"type": "number"},
    ]
)


@settings(
    max_examples=4,
    deadline=timedelta(seconds=120),
    print_blob=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    st.dictionaries(st.sampled_from(SAFE), kinds, min_size=1, max_size=4),
    st.lists(st.dictionaries(st.sampled_from(SAFE), values, max_size=4), min_size=1, max_size=6),
)
def test_every_record_is_a_row_or_in_quarantine(tmp_path_factory, properties, records):
    lake = Loaded(tmp_path_factory.mktemp("lake"), on_invalid_record="quarantine")
    messages = [record("s", {**one, "id": n}) for n, one in enumerate(records)]
    try:
        lake.load(schema("s", {"id": {"type": "integer"}, **properties}, ["id"]), *messages)
    except SingerSparkError as error:
        if error.exit_code not in EXIT_CODES:
            raise
        return
    folders = {path.name for path in lake.root.iterdir()}
    assert folders <= {"s", "_quarantine"}
    loaded = len(lake.rows("s")) if "s" in folders else 0
    aside = len(lake.rows("_quarantine/s", order="line")) if "_quarantine" in folders else 0
    assert loaded + aside == len(records)


# JSON that Python and Java may read differently, or that takes either of them very long.
ODD = [
    *("1e999999999", "-1e999999999", "1e-999999999", "9" * 4000, "-0", "1E400", "0." + "0" * 4000),
    *('"1e999999999"', '"' + "9" * 4000 + '"', '"\\u0000"', '"\\ud83d\\ude00"', '"+1"', '" 1 "'),
    *('"9999-99-99"', '"+292278994-08-17T07:12:55Z"', '"-9999-01-01T00:00:00Z"', '"now"', '"NaN"'),
    *("[" * 300 + "]" * 300, '{"a": 1, "a": 2, "A": 3}', '{"": 1}', "true"),
]
TYPES = [
    {"type": "integer"},
    {"type": "integer", "maximum": 10**30},
    {"type": "number"},
    {"type": "number", "multipleOf": 0.01},
    {"type": "string"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "singer.decimal"},
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    {"type": "array", "items": {"type": "integer"}},
    {},
]


def test_values_that_readers_may_understand_differently(lake):
    properties = {f"c{n}": one for n, one in enumerate(TYPES)}
    records = [
        f'{{"type":"RECORD","stream":"s","record":{{"id":{n * 100 + m},"c{n}":{value}}}}}\n'
        for n in range(len(TYPES))
        for m, value in enumerate(ODD)
    ]
    for validates in (True, False):
        lake.load(
            schema("s", {"id": {"type": "integer"}, **properties}, ["id"]),
            *records,
            '{"type":"RECORD","stream":"s","record":{"id":9990,"id":9991},"record":{"id":9992}}\n',
            on_invalid_record="quarantine",
            validate_records=validates,
        )
        rows = {row["id"]: row for row in lake.rows("s")}
        aside = len(lake.rows("_quarantine/s", order="line"))
        assert len(rows) + aside == len(records) + 1, validates
        assert not {9990, 9991} & {*rows}
        for n, m in ((0, 3), (2, 7)):
            assert n * 100 + m not in rows, "a value that does not fit is never bent"
        lake = Loaded(lake.root.with_name("other"))
