"""What a user promises of the rows that a MERGE looks for."""

from __future__ import annotations

import pytest

from target_spark_delta.stream_options import StreamSettings


@pytest.mark.parametrize(
    ("predicate", "tied"),
    [
        ("t.day = s.day", {"day"}),
        ("S.Day <=> T.day AND t.x > 1 and (t.y = 1 or t.z = 2)", {"day"}),
        ("t.`a b` = s.`A b` and t.n = s.n", {"a b", "n"}),
        ("t.day = s.day and t.note <> ' or '", {"day"}),
        ("t.day between s.low and s.high and s.day == t.day", {"day"}),
    ],
)
def test_columns_that_are_the_same_in_every_match_are_known(predicate, tied):
    settings = StreamSettings(load_method="upsert", merge_predicate=predicate)
    assert settings.tied_columns == tied


@pytest.mark.parametrize(
    "predicate",
    [
        None,
        "t.day = s.month",
        "t.day = t.day",
        "t.day >= s.day",
        "not t.day = s.day",
        "t.day = s.day or t.id > 1",
        "t.id > 1 or t.x = 2 and t.day = s.day",
        "not (t.day = s.day and t.x = 1)",
        "case when t.id > 1 and t.day = s.day and s.x then true else true end",
        "t.id > 1 /* and t.day = s.day and t.x = 1 */",
        "t.id > 1 -- and t.day = s.day and",
        "t.note = ' and t.day = s.day and '",
        "t.id > 1 || t.x and t.day = s.day",
    ],
)
def test_nothing_is_concluded_from_other_predicates(predicate):
    settings = StreamSettings(load_method="upsert", merge_predicate=predicate)
    assert settings.tied_columns == set()
