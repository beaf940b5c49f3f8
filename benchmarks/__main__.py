"""Measures our ways against others on the same work and machine: `make bench`.

    python -m benchmarks [--rows N] [--rounds N] [--only WORK,…] [--contestants NAME,…] [--quick]

Each contestant has an environment of its own, which is made when it is needed first. Results of
other works, contestants and sizes on this machine stay in the output folder.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks import environments, report
from benchmarks.contest import Contest
from benchmarks.contestants import WORKS, Contestant
from benchmarks.ours import OURS
from benchmarks.peers import PEERS
from benchmarks.results import Results, machine, today
from benchmarks.source import Source

MILLION = 1_000_000
QUICK_ROWS = 20_000
WARM_UPS = 2


def main() -> None:
    """Run what is asked for, and write what it took."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped
    asked = choose(options.only, options.contestants)
    bins = environments.make({name for one in asked for name in one.environments})
    source = Source()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            warm_ups = 0 if options.quick else WARM_UPS
            contest = Contest(
                source, bins, asked, options.rows, options.rounds, warm_ups, Path(folder)
            )
            try:
                contest.hold()
            finally:
                _keep(contest, options)
    finally:
        source.stop()
    if contest.failures:
        sys.exit("\n".join(["These failed:", *contest.failures]))


def choose(only: list[str], names: list[str]) -> dict[Contestant, frozenset[str]]:
    """Return who takes part and which works are asked of each.

    Args:
        only: The works; all if none.
        names: The contestants; those of each work's default if none.
    """
    everyone = {one.name: one for one in (*OURS, *PEERS)}
    if unknown := [name for name in names if name not in everyone]:
        sys.exit(f"No such contestant: {', '.join(unknown)}; known are {', '.join(everyone)}")
    works = frozenset(only or WORKS)
    if unknown := works - set(WORKS):
        sys.exit(f"No such work: {', '.join(unknown)}; known are {', '.join(WORKS)}")
    asked = {
        one: (one.works if names else one.works & one.by_default) & works
        for name, one in everyone.items()
        if not names or name in names
    }
    return {one: does for one, does in asked.items() if does}


def _keep(contest: Contest, options: argparse.Namespace) -> None:
    """Add the runs to those of earlier calls, and write the report of all."""
    more = {"size": options.rows, "date": today()}
    results = Results(machine(), [{**asdict(run), **more} for run in contest.runs])
    earlier = options.to / "speed.json"
    if earlier.exists():
        results = Results.read(earlier).followed_by(results)
    report.write(results, options.to)
    print(f"\n{(options.to / 'speed.md').read_text()}\nwritten to {options.to}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    names = ", ".join(one.name for one in (*OURS, *PEERS))
    parser.add_argument("--rows", type=int, help=f"of the large table; {MILLION:,} if not given")
    parser.add_argument("--rounds", type=int, help="how often everybody does each work; 3")
    parser.add_argument("--only", type=_names, default=[], help=f"works: {', '.join(WORKS)}")
    parser.add_argument("--contestants", type=_names, default=[], help=names)
    parser.add_argument("--quick", action="store_true", help="a smoke test: few rows, one round")
    parser.add_argument("--to", type=Path, help="folder of the results; output/bench")
    options = parser.parse_args()
    options.rows = options.rows or (QUICK_ROWS if options.quick else MILLION)
    options.rounds = options.rounds or (1 if options.quick else 3)
    # Figures of a smoke test do not belong among the others.
    quick = report.OUTPUT.with_name("bench-quick")
    options.to = options.to or (quick if options.quick else report.OUTPUT)
    return options


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


if __name__ == "__main__":
    main()
