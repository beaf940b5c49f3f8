"""How pipelines are doing, judged from the records of their runs; pure.

lag          how far a watermark lies behind a moment
late         how late rows were, and which lookback would catch them
case         what is known of one pipeline, and what of it is usual
rules        what is wrong with it, each with its reason
words        numbers as people say them
report       its health as a value
metrics      the same for machines, as OpenMetrics
"""

from __future__ import annotations
