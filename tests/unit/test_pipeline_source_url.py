"""Whether `check` warns of a server that nobody proves to be the right one."""

from __future__ import annotations

import pytest

from singer_spark.pipeline.source_url import state_advice, transit_advice


@pytest.mark.parametrize(
    "config",
    [
        {"source_url": "jdbc:postgresql://localhost:5432/shop"},
        {"source_url": "jdbc:postgresql://127.0.0.1/shop"},
        {"source_url": "jdbc:postgresql://[::1]:5432/shop"},
        {"source_url": "jdbc:postgresql:shop"},
        {"source_url": "jdbc:postgresql://db/shop?user=me&sslmode=verify-full"},
        {"source_url": "jdbc:postgresql://db/shop", "source_options": {"sslmode": "verify-full"}},
        {"source_url": "jdbc:mysql://db/shop"},
        {},
    ],
    ids=str,
)
def test_nothing_is_said_where_the_server_is_known(config):
    assert transit_advice(config) is None


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://db.example:5432/shop",
        "jdbc:postgresql://me:s3cr3t@db/shop",
        "jdbc:postgresql://localhost,db/shop",
        "jdbc:postgresql://db/shop?sslmode=require",
        "jdbc:postgresql://localhost.evil.example/shop",
        "jdbc:postgresql://db/shop?sslmode=verify-ca",
        "jdbc:postgresql://db/shop?sslmode=verify-full&sslmode=disable",
    ],
)
def test_another_host_has_to_prove_itself(url):
    advice = transit_advice({"source_url": url})
    assert "sslmode=verify-full" in (advice or "")
    assert "s3cr3t" not in (advice or "")


def test_a_state_store_has_to_prove_itself_too():
    url = "postgresql://me:s3cr3t@db.example/states"
    for state in (url, {"url": url}, f"{url}?sslmode=require"):
        advice = state_advice(state)
        assert "sslmode=verify-full in state" in (advice or "")
        assert "s3cr3t" not in (advice or "")
    for state in (f"{url}?sslmode=verify-full", "postgresql+psycopg://localhost/x", "sqlite:///x"):
        assert state_advice(state) is None
