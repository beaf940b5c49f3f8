"""How pipelines are doing, judged from the records of their runs; pure.

lag          how far a watermark lies behind a moment
late         how late rows were, and which lookback would catch them
"""

from __future__ import annotations
