"""What leaves the tap: records, and the files that BATCH messages name."""

from __future__ import annotations
