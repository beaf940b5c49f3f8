"""What all streams together may hold back: bytes on disk and keys in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from target_spark_delta.sink import SparkDeltaSink

_OPEN_BATCHES = 4
_MOST_KEYS = 1_500_000


def too_large(sinks: Iterable[SparkDeltaSink], batch_bytes: int) -> list[SparkDeltaSink]:
    """Choose the largest open batches, to be committed early."""
    return _largest(sinks, lambda sink: sink.size, most=batch_bytes * _OPEN_BATCHES)


def too_many_keys(sinks: Iterable[SparkDeltaSink]) -> list[SparkDeltaSink]:
    """Choose the open batches with the most keys, to be looked at by Spark instead."""
    return _largest(sinks, lambda sink: sink.keys_held, most=_MOST_KEYS)


def _largest(
    sinks: Iterable[SparkDeltaSink], held: Callable[[SparkDeltaSink], int], *, most: int
) -> list[SparkDeltaSink]:
    """Choose as few as possible, so that the others hold no more than this together."""
    total = 0
    sizes = []
    for sink in sinks:
        if sink.segment:
            sizes.append((held(sink), sink))
            total += sizes[-1][0]
    if total <= most:
        return []
    chosen = []
    for size, sink in sorted(sizes, key=lambda one: -one[0]):
        if total <= most:
            break
        total -= size
        chosen.append(sink)
    return chosen
