"""What tap and target tell the runner beside their messages: one JSON line per fact.

The runner names a file in SINGER_SPARK_REPORT; without one nothing is told. Kinds of facts:

- `expected` (tap): about how many `rows` a stream's read will give.
- `batch` (tap): how many `rows` and `bytes` went into files, of which a BATCH tells no number.
- `limited` (tap): `max_rows` ended the stream's read; another run goes on from there.
- `bookmark` (tap): the `column` and the `value` in it below which rows are read once more.
- `source` (tap, stream ""): the identity of the source, as `singer_spark.assignment` has it.
- `commit` (target): `rows` of a batch that were taken in; of them `inserted`, `updated`, `deleted`,
  and `unchanged`, left out because the table has them; `milliseconds`.
- `writes` (target): a commit with rows of the stream is about to be made.
- `table` (target): the identity of the stream's table after a commit, the last one included.
- `claimed` (target): a run that held the lock before can commit nothing to the stream's table.
- `outnumbered` (target, stream ""): a table has commits of higher numbers than this run's, though
  no other run has taken its lock over.
- `reached` (target): the `bookmark`, as a text, up to which a failed run has loaded the stream; the
  run that finds it refuses to begin before it.
- `late` (target): how many `rows` below that value a commit changed, the latest by `seconds`.
- `quarantine` (target): how many `rows` were set aside.
- `progress` (both, stream ""): something moved inside of Spark; `command` is who says so, `doing`
  what it is busy with. At most one in ten seconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPORT_FILE = "SINGER_SPARK_REPORT"


def is_reporting() -> bool:
    """Say whether anybody wants to know."""
    return bool(os.environ.get(REPORT_FILE))


def report(kind: str, stream: str, **facts: Any) -> None:
    """Tell a fact; one write per line, so that several threads and processes can share the file."""
    path = os.environ.get(REPORT_FILE)
    if path:
        line = json.dumps({"kind": kind, "stream": stream, **facts}) + "\n"
        with Path(path).open("ab", buffering=0) as file:
            file.write(line.encode())


def last_told(kind: str, stream: str, file: Path | None = None) -> dict[str, Any] | None:
    """Return the last fact of a kind that anybody in this run told of a stream."""
    path = str(file or os.environ.get(REPORT_FILE) or "")
    if not path or not Path(path).exists():
        return None
    facts = (fact for _, fact in read_report(Path(path)))
    found = [fact for fact in facts if (fact.get("kind"), fact.get("stream")) == (kind, stream)]
    return found[-1] if found else None


def read_report(path: Path, start: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the facts told since `start`, each with the place where the next one begins.

    Anybody's tap may write there; what is no fact is passed over.
    """
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                break
            start += len(line)
            yield start, _parse(line)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        fact = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return fact if isinstance(fact, dict) else {}
