"""What is sent again changes nothing: no file, no commit."""

from __future__ import annotations

import pytest

from tests.support.singer import data, runs

RANGE = {"stream_options": {"events": {"load_method": "delete-insert", "range_column": "at"}}}


@pytest.mark.parametrize(
    ("table", "messages", "chosen"),
    [
        pytest.param(
            "events",
            [data("methods/range_with_key_first"), data("methods/range_with_key_next")],
            RANGE,
            id="a range with a key",
        ),
        pytest.param("users", runs("cases/delete_soft")[:2], {}, id="deletions that mark"),
        pytest.param("s", runs("cases/freeze_activation"), {}, id="an activation that marks"),
        pytest.param(
            "s",
            runs("cases/freeze_activation"),
            {"hard_delete": True},
            id="an activation that removes",
        ),
    ],
)
def test_the_version_stays(lake, table, messages, chosen):
    for one in messages:
        lake.load(one, **chosen)
    before = lake.version(table)
    lake.load(messages[-1], **chosen)
    assert lake.version(table) == before
