"""Eight processes at one pipeline: no update is lost, nothing half written is ever read."""

from __future__ import annotations

import pytest

from tests.support.hammer import WORKERS, hammer_with_threads


@pytest.fixture
def hammer_at(place, request):
    def run(task, seconds):
        if place.config is None:
            return hammer_with_threads(place.open, task, seconds)
        return request.getfixturevalue("hammer")(place.config, task, seconds)

    return run


def check(place, results):
    assert len(results) == WORKERS
    assert [error for result in results for error in result["errors"]] == []
    counted, locked, reads = (
        [result[key] for result in results] for key in ("counted", "locked", "reads")
    )
    store = place.open()
    counter = store.documents.parse("p/counter.json", store.objects.read("p/counter.json"))
    state = store.get("p")
    assert counter["n"] == sum(counted)
    assert state.watermark["n"] == state.run_count == sum(locked)
    assert min(locked) > 0
    assert min(reads) > 0


def test_no_update_is_lost_and_no_read_is_torn(place, hammer_at):
    check(place, hammer_at("count", 1.0))


@pytest.mark.slow
def test_no_update_is_lost_in_a_longer_fight(place, hammer_at):
    check(place, hammer_at("count", 20.0))


def test_of_eight_who_want_the_lock_one_gets_it(place, hammer_at):
    results = hammer_at("contend", 0)

    winners = [result["run_id"] for result in results if result["outcome"] == "won"]
    assert len(winners) == 1
    outcomes = {result["outcome"] for result in results}
    assert outcomes == {"won", f"lost to {winners[0]}"}
    assert place.open().objects.read("p/lock") is None
