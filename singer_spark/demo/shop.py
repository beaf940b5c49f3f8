"""The example's source: a shop in an embedded Derby database, which Spark brings along."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from singer_spark.engine.jars import spark_jars
from singer_spark.engine.java import find_java
from singer_spark.errors import SingerSparkError

PIPELINE = """\
name: shop
source:
  tap: tap-spark-source
  config:
    source_url: {source}
    tables: [SHOP.*]
    emit_activate_version_messages: true   # the target marks products that are gone
    stream_options:
      SHOP-CUSTOMERS: {{replication_key: UPDATED_AT}}
      SHOP-ORDERS: {{replication_key: UPDATED_AT}}
destination:
  target: target-spark-delta
  config:
    path: {lake}
"""


def make_shop(folder: Path) -> None:
    """Create the database with its first rows."""
    _run_script(folder, "shop.sql")


def change_shop(folder: Path) -> None:
    """Change, add and delete rows."""
    _run_script(folder, "change.sql")


def write_pipeline(folder: Path) -> Path:
    """Write the pipeline file that loads the shop into `lake`."""
    path = folder / "pipelines" / "shop.yml"
    path.parent.mkdir()
    source = json.dumps(f"jdbc:derby:{folder / 'shop'}")
    lake = json.dumps(str(folder / "lake"))
    path.write_text(PIPELINE.format(source=source, lake=lake), encoding="utf-8")
    return path


def _run_script(folder: Path, name: str) -> None:
    """Run a script with Derby's own tool; the database is closed when it returns."""
    class_path = ":".join(str(jar) for jar in sorted(spark_jars().glob("derby*.jar")))
    command = [
        find_java().command,
        "-XX:TieredStopAtLevel=1",
        "-Dderby.stream.error.file=/dev/null",
        f"-Dij.database=jdbc:derby:{folder / 'shop'};create=true",
        "-cp",
        class_path,
        "org.apache.derby.tools.ij",
        str(Path(__file__).with_name(name)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    # The tool goes on after an error and exits with 0.
    error = re.search(r"^(ERROR|JAVA ERROR).*", done.stdout, re.MULTILINE)
    if done.returncode or error:
        reason = error[0] if error else done.stderr
        raise SingerSparkError(f"the example's database refused {name}: {reason}")
