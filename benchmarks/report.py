"""Writes what was measured as Markdown and as a picture: `python -m benchmarks.report [--publish]`.

`--publish` puts both, and the JSON, into docs/ and the picture into README.md.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from benchmarks.contestants import FULL, INCREMENTAL, NO_CHANGE, SMALL_WORK, WORKS
from benchmarks.environments import PINNED, ROOT
from benchmarks.ours import OURS
from benchmarks.peers import PEERS
from benchmarks.picture import draw
from benchmarks.results import Median, Results, Verdict, verdicts
from benchmarks.source import MOST_FOR_SINGER

OUTPUT = ROOT / "output" / "bench"
_LABELS = {one.name: one.label for one in (*OURS, *PEERS)}
_OURS = {one.name for one in OURS}


def write(results: Results, folder: Path) -> None:
    """Write the JSON, the Markdown and the picture."""
    results.write(folder / "speed.json")
    (folder / "speed.md").write_text(markdown(results))
    (folder / "speed.svg").write_text(_picture(results))


def markdown(results: Results) -> str:
    """Return the page: the goals, then all medians of each size."""
    medians = results.medians()
    if not medians:
        return "# Speed\n\nNothing was measured.\n"
    parts = [
        f"# Speed\n\n{_about(results, medians)}\n\n![seconds per run](speed.svg)\n",
        "## Goals\n\n" + _goals(verdicts(medians)),
    ]
    for size in results.sizes:
        for work in WORKS:
            found = [one for one in medians if (one.work, one.size) == (work, size)]
            if found:
                parts.append(f"## {_title(work, size)}\n\n{_table(found)}")
    parts.append(f"## How it is measured\n\n{_HOW}\n\n{_versions()}")
    return "\n".join(parts)


_HOW = f"""\
- Wall time is that of the command, start-up included. CPU time and peak memory (PSS) are those of
  all processes that it starts, Spark's included, until the last has ended; not PostgreSQL's.
- Everybody has an environment of its own with compiled bytecode, has run once before, and takes
  turns with the others. After each run the tables are compared with the source: the number of rows,
  and a checksum over all values.
- *Cold*: the run starts its own Spark. *Warm*: `singer-spark engine start` came before, and two
  runs of the same work. The CPU time and the memory of the warm Spark count as well.
- The hand-written script has a classic session with as much memory as ours, jars that lie on the
  disk, as many partitions as cores, Delta's MERGE, and keeps its cursor in a file.
- tap-postgres reads {MOST_FOR_SINGER:,} rows at most; compared are rows per second.
- Growth is that of the wall time less that of a run that finds nothing new."""


def _about(results: Results, medians: list[Median]) -> str:
    about = results.about
    dates = sorted({one.date for one in medians})
    rounds = sorted({one.rounds for one in medians})
    return (
        f"`make bench` on {about['cores']} cores of {about['processor']}, {about['memory_gb']} GB, "
        f"{about['system']}, Java {about['java']}, Python {about['python']}; "
        f"{_span(dates)}. "
        f"Medians of {_span(rounds)} round(s). "
        "What counts are the ratios of one run."
    )


def _span(values: list) -> str:
    return " to ".join(str(value) for value in dict.fromkeys((values[0], values[-1])))


def _goals(found: list[Verdict]) -> str:
    lines = [
        "| work | ours | against | ratio | must | aim | reached |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        sign = "≥" if one.at_least else "≤"
        ratio = "-" if one.ratio is None else f"{one.ratio:.2f}"
        against = _LABELS.get(one.against, one.against)
        lines.append(
            f"| {one.work} | {_cell(_LABELS.get(one.ours, one.ours))} | {_cell(against)} | {ratio} "
            f"| {sign} {one.must:g} | {sign} {one.aim:g} | {one.reached} |"
        )
    return "\n".join(lines) + "\n"


def _table(found: list[Median]) -> str:
    lines = ["| | wall | CPU | peak memory | rows/s |", "|---|---|---|---|---|"]
    for one in sorted(found, key=lambda one: one.wall):
        label = _cell(_LABELS.get(one.contestant, one.contestant))
        label = f"**{label}**" if one.contestant in _OURS else label
        rate = f"{one.rows / one.wall:,.0f}" if one.work == FULL else ""
        lines.append(
            f"| {label} | {one.wall:.2f} s | {one.cpu:.1f} s | {one.peak_mb:,.0f} MB | {rate} |"
        )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _title(work: str, size: int) -> str:
    return {
        FULL: f"Full load of {size:,} rows",
        INCREMENTAL: f"{size // 10:,} changed rows of {size:,}",
        NO_CHANGE: f"A run that finds nothing new in {size:,} rows",
        SMALL_WORK: "Small: 8 changed rows of 3 tables",
    }[work]


def _versions() -> str:
    pinned = ", ".join(f"`{one}`" for packages in PINNED.values() for one in packages)
    return f"Measured against {pinned}.\n"


def _picture(results: Results) -> str:
    if not results.sizes:
        return draw([], _LABELS, _OURS, {}, "")
    size = results.sizes[0]
    medians = [
        one for one in results.medians() if one.size == size and one.contestant != "tap-postgres"
    ]
    about = results.about
    footer = (
        f"Seconds, start-up included. {about['cores']} cores, {about['memory_gb']} GB, "
        f"{max(one.date for one in medians) if medians else ''}"
    )
    titles = {work: _title(work, size) for work in WORKS}
    return draw(medians, _LABELS, _OURS, titles, footer)


def publish(folder: Path) -> None:
    """Put the figures where readers find them."""
    for name in ("speed.json", "speed.md", "speed.svg"):
        shutil.copy(folder / name, ROOT / "docs" / name)
    readme = ROOT / "README.md"
    shown = "<!-- speed -->\n![Seconds per run](docs/speed.svg)\n<!-- /speed -->"
    marked = re.compile(r"<!-- speed -->.*?<!-- /speed -->", re.DOTALL)
    readme.write_text(marked.sub(shown, readme.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--to", type=Path, default=OUTPUT, help="the folder of speed.json")
    parser.add_argument("--publish", action="store_true", help="copy them into docs and README.md")
    options = parser.parse_args()
    write(Results.read(options.to / "speed.json"), options.to)
    if options.publish:
        publish(options.to)


if __name__ == "__main__":
    main()
