"""Decides what to read, and nothing else: no Spark, no source, no clock."""

from __future__ import annotations
