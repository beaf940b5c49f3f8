"""Runs one pipeline: a tap and a target as processes, joined and watched.

run          one run, or several until nothing is left; the state is stored after both exited 0
start        from which state a run begins
failed_runs  how it begins after runs that failed
identity     by what source and tables are known again
run_state    what a run needs of the place that keeps its state; state in files
state_store  state in a store, under the lock of the run
commands     both commands: found, given their settings, asked for their streams
sharing      one engine for both, the same jars, a place for batch files
process      a child that cannot outlive the runner
supervisor   what happens to the children, in the order in which it happens
transfer     the tap's messages to the target, the target's STATEs back
streams      what is known of each stream: counted, or reported by tap and target
meter        what is measured while a run goes, and where it is shown
record       what the run did, for its history, and what its operator should know
lineage      a run's start and end as OpenLineage events
preview      both sides tried without loading, and what a run would read
loading      what becomes of a stream's rows
"""

from __future__ import annotations

from singer_spark.runner.commands import find_command
from singer_spark.runner.meter import Display, PlainDisplay
from singer_spark.runner.run import RunResult, run_pipeline, run_until_complete
from singer_spark.runner.run_state import StateFiles
from singer_spark.runner.start import RunOptions, Window

__all__ = [
    "Display",
    "PlainDisplay",
    "RunOptions",
    "RunResult",
    "StateFiles",
    "Window",
    "find_command",
    "run_pipeline",
    "run_until_complete",
]
