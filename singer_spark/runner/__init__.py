"""Runs one pipeline: a tap and a target as processes, joined and watched.

selection    which streams of the tap's catalog are read
process      a child that cannot outlive the runner
supervisor   what happens to the children, in the order in which it happens
tally        how many records of which stream pass, without parsing them
transfer     the tap's messages to the target, the target's STATEs back
commands     both commands told their part by private files
record       what the run did, for its history
book         where state comes from and goes, under the lock
files        state in files instead, for orchestrators
run          one run, and the final STATE stored only after both exited 0
"""

from __future__ import annotations

from singer_spark.runner.commands import find_command
from singer_spark.runner.files import StateFiles
from singer_spark.runner.run import RunResult, run_pipeline

__all__ = ["RunResult", "StateFiles", "find_command", "run_pipeline"]
