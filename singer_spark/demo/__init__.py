"""The embedded example."""

from __future__ import annotations
