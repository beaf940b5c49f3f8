"""Bytes under keys, written atomically and conditionally, wherever a URL says.

objects      the seam that every place keeps to
folder, s3, cloud, sql, meltano    the places
open         which place a URL means
"""

from __future__ import annotations
