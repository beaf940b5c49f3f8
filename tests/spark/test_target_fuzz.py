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
