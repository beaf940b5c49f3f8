"""Whether a store keeps the conditions of writes: without them two runs start together."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

from singer_spark.errors import StateError
from singer_spark.state.base import StateStore
from singer_spark.state.documents import key_of
from singer_spark.state.objects import ConflictError, Expect


def refuse_unconditional(store: StateStore, name: str) -> None:
    """Try two writes that must fail, on an object of our own.

    Raises:
        StateError: The store took one of them.
    """
    objects = store.objects
    key = key_of(name, f"probe-{uuid4().hex}")
    first = objects.write(key, b'{"try": 1}', Expect.ABSENT)
    try:
        stale: tuple[str | Expect, ...] = (Expect.ABSENT, _changed(store, key, first))
        for number, expected in enumerate(stale):
            with suppress(ConflictError):
                objects.write(key, b'{"refuse": %d}' % number, expected)
                raise StateError(
                    f"{objects.place} ignores the conditions of writes (If-None-Match, If-Match), "
                    "so nothing would keep two runs apart; keep the state elsewhere, or set "
                    "lock: none in the pipeline file and see that one run is active at a time"
                )
    finally:
        with suppress(StateError):
            objects.delete(key)


def _changed(store: StateStore, key: str, tag: str) -> str:
    """Write another version and return the tag of the old one, which nobody may write over."""
    store.objects.write(key, b'{"try": 2}', tag)
    return tag
