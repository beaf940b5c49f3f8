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


@pytest.mark.parametrize("start", ["[", '{"a":'])
def test_what_is_nested_too_deeply_is_no_json(start):
    """It would end whoever walks it by recursion, in the middle of a run."""
    end = {"[": "]"}.get(start, "}")
    for levels in (201, 2_000, 200_000):
        with pytest.raises(ValueError, match="nested deeper than 200 levels"):
            exact_json.loads(start * levels + "1" + end * levels)
    text = start * 200 + "1" + end * 200
    assert exact_json.canonical(exact_json.loads(text)).replace(" ", "") == text


def test_signs_in_texts_are_no_levels_and_a_text_without_end_takes_no_time():
    assert exact_json.loads('["' + "[{" * 500 + '\\""]') == ["[{" * 500 + '"']
    with pytest.raises(ValueError):
        exact_json.loads("[" * 201 + '"' + '\\"' * 500_000)


def test_a_state_may_have_long_texts_of_digits():
    exact_json.check_state(f'{{"a": "{"9" * 5000}", "b": {"9" * 4300}, "c": "{"[" * 500}"}}')
    exact_json.check_state(b'{"a": "' + b"9" * 5000 + b'"}')
    with pytest.raises(ValueError, match="more than 4300 digits"):
        exact_json.check_state(f'{{"a": {"9" * 4301}}}')
