"""Runs one pipeline: a tap and a target as processes, joined and watched.

options      how a run differs from the usual one
start        from which state it begins, after runs that failed too
selection    which streams of the tap's catalog are read
handover     settings for a child, in files without a name
process      a child that cannot outlive the runner
stall        the end of a run in which nothing moves
supervisor   what happens to the children, in the order in which it happens
tally        how many records of which stream pass, without parsing them
facts        what tap and target tell beside their messages, by stream
usage        the memory of a tree of processes
progress     how a run is shown while it goes
meter        all that is measured while it goes
transfer     the tap's messages to the target, the target's STATEs back
commands     both commands, found and given their settings
versions     of the commands, without starting them
secrets      kept out of what is written down
record       what the run did, for its history
advice       what its operator should know although it succeeded
identity     by what source and tables are known again
book         where state comes from and goes, under the lock
files        state in files instead, for orchestrators
post         JSON to a URL
lineage      a run's start and end told as OpenLineage events
run          one run, and the final STATE stored only after both exited 0
repeat       runs until nothing is left
probe        both sides tried without moving anything
preview      what a run would read
verdict      what becomes of a stream's rows
"""

from __future__ import annotations

from singer_spark.runner.commands import find_command
from singer_spark.runner.files import StateFiles
from singer_spark.runner.options import RunOptions, Window
from singer_spark.runner.progress import Display, PlainDisplay
from singer_spark.runner.repeat import run_until_complete
from singer_spark.runner.run import RunResult, run_pipeline

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
