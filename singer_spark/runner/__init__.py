"""Runs one pipeline: a tap and a target as processes, joined and watched.

selection    which streams of the tap's catalog are read
process      a child that cannot outlive the runner
supervisor   what happens to the children, in the order in which it happens
tally        how many records of which stream pass, without parsing them
transfer     the tap's messages to the target, the target's STATEs back
run          one run, and the final STATE stored only after both exited 0
"""

from __future__ import annotations

from singer_spark.runner.run import RunResult, find_command, run_pipeline

__all__ = ["RunResult", "find_command", "run_pipeline"]
