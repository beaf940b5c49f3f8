"""The id that a database has of its own: one failed question does not lose it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from singer_spark.errors import SourceError
from tap_spark_source.sources.jdbc import JdbcSource


@pytest.fixture
def asked(monkeypatch):
    """A source whose answers are given; the queries that came are noted."""

    def asked(*answers):
        source = JdbcSource(None, SimpleNamespace(url="jdbc:postgresql://db/shop"))
        left, queries = [*answers], []

        def rows(query, _):
            queries.append(query)
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(source, "_rows", rows)
        return source, queries

    return asked


def test_after_a_joined_question_that_failed_it_is_asked_for_alone(asked):
    source, queries = asked(SourceError("no"), [{"s": "a"}], [{"id": 7}])
    assert source._rows_and_id("select 1", ["s"]) == [{"s": "a"}]
    assert (source.own_id(), source.own_id(), len(queries)) == ("7", "7", 3)


def test_it_is_asked_for_once_and_null_is_none(asked):
    source, _ = asked([{"s": "a", "own_id": None}], [{"id": None}])
    source._rows_and_id("select 1", ["s"])
    assert (source.own_id(), source.own_id()) == (None, None)
