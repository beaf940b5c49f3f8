"""What Spark says it wrote, and what the files of a batch hold."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_spark.errors import TransientError
from tap_spark_source.output.batch_files import _check


@pytest.mark.parametrize(("damage", "left"), [("removed", 3), ("cut", 0), ("other", 4)])
def test_files_that_lack_rows_which_spark_wrote_end_the_run(tmp_path, damage, left):
    """Before a STATE says that they have come."""
    for name, rows in {"a": 3, "b": 2}.items():
        pq.write_table(pa.table({"id": range(rows)}), tmp_path / name)
    _check("orders", tmp_path, 5)
    last = tmp_path / "b"
    if damage == "removed":
        last.unlink()
    elif damage == "cut":
        last.write_bytes(last.read_bytes()[:-1])
    else:
        pq.write_table(pa.table({"id": [1]}), last)
    told = f"orders: Spark wrote 5 rows and the files in {tmp_path} hold {left}; the bookmark stays"
    with pytest.raises(TransientError, match=re.escape(told)):
        _check("orders", tmp_path, 5)
