"""Work that goes on at the same time in one session."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from singer_spark.session import isolated

SLEEP = "select reflect('java.lang.Thread', 'sleep', 100L) from range(0, {0}, 1, {0})"


def test_a_small_piece_of_work_does_not_wait_for_the_end_of_a_large_one(spark):
    def ended(tasks: int) -> float:
        isolated(spark).sql(SLEEP.format(tasks)).collect()
        return time.monotonic()

    ended(1)
    with ThreadPoolExecutor() as pool:
        large = pool.submit(ended, 40)
        while not spark.sparkContext.statusTracker().getActiveStageIds():
            time.sleep(0.01)
        small = pool.submit(ended, 2)
        assert large.result() - small.result() > 1
