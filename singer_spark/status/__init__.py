"""Looks at pipelines and tells those who should know.

collect      pipeline files and stores become healths
notify       alerts sent at least once, and not again while nothing changes
"""

from __future__ import annotations
