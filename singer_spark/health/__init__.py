"""How pipelines are doing, judged from the records of their runs.

lag          how far a watermark lies behind, how late rows were
history      the last runs of one pipeline at one moment, and what of them is usual
rules        what is wrong with it, each with its reason; its health
collect      pipeline files and stores become healths
notify       alerts sent at least once, and not again while nothing changes
metrics      health for machines, as OpenMetrics
page         health for people, as one page
"""

from __future__ import annotations
