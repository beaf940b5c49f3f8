"""Streams of unusual shape into the target: speed as a ratio to the plain one, and memory.

python -m benchmarks.parts.shapes [SCALE]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.parts import measure, messages

LIMIT_MB = 500
# With validation at least this part of the records that pass without.
LEAST_VALIDATED = 0.5


@dataclass(frozen=True)
class Shape:
    """A stream: how its lines are made, and how many records it has at full size."""

    name: str
    lines: Callable[[int], Iterator[str]]
    records: int


def _message(kind: str, stream: str, **more: object) -> str:
    return json.dumps({"type": kind, "stream": stream, **more}) + "\n"


def _schema(stream: str, properties: dict[str, object]) -> str:
    schema = {"type": "object", "properties": properties}
    return _message("SCHEMA", stream, schema=schema, key_properties=["id"])


def _one_column(records: int) -> Iterator[str]:
    yield _schema("narrow", {"id": {"type": "integer"}})
    for number in range(records):
        yield f'{{"type": "RECORD", "stream": "narrow", "record": {{"id": {number}}}}}\n'


def _wide(records: int) -> Iterator[str]:
    names = [f"column_{number}" for number in range(999)]
    texts = {name: {"type": ["string", "null"]} for name in names}
    yield _schema("wide", {"id": {"type": "integer"}, **texts})
    values = {name: f"value of {name}" for name in names}
    for number in range(records):
        yield _message("RECORD", "wide", record={"id": number, **values})


def _streams(records: int) -> Iterator[str]:
    for stream in range(100):
        yield _schema(f"stream_{stream}", messages.PROPERTIES)
    for number in range(records):
        line = messages.line(number // 100)
        yield line.replace('"orders"', f'"stream_{number % 100}"', 1)


def _huge(records: int) -> Iterator[str]:
    yield _schema("huge", {"id": {"type": "integer"}, "text": {"type": "string"}})
    text = "x" * 50_000_000
    for number in range(records):
        yield _message("RECORD", "huge", record={"id": number, "text": text})


def _plain(records: int) -> Iterator[str]:
    yield json.dumps(messages.SCHEMA) + "\n"
    for number in range(records):
        yield messages.line(number)


PLAIN = Shape("nine columns", _plain, 1_000_000)
SHAPES = [
    Shape("one column", _one_column, 1_000_000),
    Shape("1,000 columns", _wide, 20_000),
    Shape("100 streams", _streams, 1_000_000),
    Shape("50 MB each", _huge, 10),
]


def run(folder: Path, scale: float) -> list[str]:
    """Load every shape, `scale` times its full size, twice: few and many, start-up aside.

    Return what is beyond its limit.
    """
    plain = _rate(folder, PLAIN, scale)
    unchecked = _rate(folder, PLAIN, scale, validate_records=False)
    print(f"plain: {plain.rate:,.0f} records/s of nine columns, {plain.peak_mb:.0f} MB")
    print(f"  without validation: {unchecked.rate:,.0f}, ratio {plain.rate / unchecked.rate:.2f}")
    beyond = []
    if plain.rate / unchecked.rate < LEAST_VALIDATED:
        beyond.append(f"validation takes more than {1 - LEAST_VALIDATED:.0%} of the speed")
    for shape in SHAPES:
        found = _rate(folder, shape, scale)
        if found.peak_mb > LIMIT_MB:
            beyond.append(f"{shape.name}: {found.peak_mb:.0f} MB, above {LIMIT_MB} MB")
        print(
            f"{shape.name}: {found.rate:,.1f} records/s, {found.megabytes:.1f} MB/s, "
            f"ratio {found.rate / plain.rate:.4f} in records and "
            f"{found.megabytes / plain.megabytes:.2f} in bytes; "
            f"Python process {found.peak_mb:.0f} MB"
        )
    return beyond


@dataclass(frozen=True)
class _Found:
    rate: float
    megabytes: float
    peak_mb: float


def _rate(folder: Path, shape: Shape, scale: float, **settings: object) -> _Found:
    """Measure what more records cost than few, so that the start is not counted."""
    many = max(2, round(shape.records * scale))
    few = max(1, many // 10)
    runs = [_load(folder, shape, records, settings) for records in (few, many)]
    (size, first), (more_size, second) = runs
    seconds = max(second.seconds - first.seconds, 0.001)
    return _Found(
        (many - few) / seconds,
        (more_size - size) / seconds / 1e6,
        max(first.peak_mb, second.peak_mb),
    )


def _load(
    folder: Path, shape: Shape, records: int, settings: dict[str, object]
) -> tuple[int, measure.Measured]:
    source = folder / "in.singer"
    with source.open("w") as file:
        file.writelines(shape.lines(records))
    place = folder / f"{shape.name}-{records}-{len(list(folder.iterdir()))}"
    config = folder / "target.json"
    config.write_text(json.dumps({"path": str(place), **settings}))
    command = [*measure.command("target-spark-delta"), "--config", str(config)]
    return source.stat().st_size, measure.run(command, source=source, records=records)


def main() -> None:
    """Load every shape; fail beyond a limit."""
    with tempfile.TemporaryDirectory() as folder:
        if beyond := run(Path(folder), float(sys.argv[1]) if len(sys.argv) > 1 else 1.0):
            sys.exit("; ".join(beyond))


if __name__ == "__main__":
    main()
