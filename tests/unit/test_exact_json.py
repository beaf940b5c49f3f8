"""JSON that keeps the digits of its numbers."""

from __future__ import annotations

import copy

import pytest

from singer_spark import exact_json

SPELLINGS = ["9007199254740995.1", "1.0", "1e3", "-0", "-0.0", "1E+400", "9" * 40, "0.1000"]


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_number_is_written_as_it_was_read(text):
    line = f'{{"bookmarks": {{"a": [{text}, "{text}"]}}}}'
    assert exact_json.dumps(exact_json.loads(line)) == line
    assert exact_json.dumps(copy.deepcopy(exact_json.loads(line))) == line


def test_a_number_can_be_computed_with():
    assert exact_json.loads("[1.5, 2]") == [1.5, 2]
    assert exact_json.loads("1.5") + 1 == 2.5


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError):
        exact_json.loads(text)


def test_infinities_are_not_written():
    with pytest.raises(ValueError):
        exact_json.dumps({"a": float("inf")})
