"""The dashboard: one page that needs no network, no script and no server. Pure.

markup       HTML in which every text is escaped
words        numbers and times as the page says them
charts       small pictures of numbers over time
runs         the runs of a pipeline and their streams
document     the page
"""

from __future__ import annotations

from singer_spark.page.document import write_page

__all__ = ["write_page"]
