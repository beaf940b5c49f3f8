"""The one Spark engine of a test process, warm for all of its tests and the commands they start."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading

from singer_spark.engine import keeper, place
from singer_spark.engine.lease import ENGINE
from singer_spark.engine.session import open_session
from singer_spark.engine.spec import Spec
from singer_spark.settings import SparkSettings

URLS = ["jdbc:postgresql://", "jdbc:sqlite:", "avro:", "s3a://", "kafka:"]
URLS_OF_SLOW_TESTS = ["jdbc:mariadb:", "jdbc:mysql:"]


@functools.cache
def shared_keeper():
    """Keep an engine in this process, so that tests can look into its Java."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    folder = place.make_engine_folder()
    kept = keeper.Keeper(Spec.of(SparkSettings.from_config({}), URLS), 3600.0, folder)
    listening = keeper.listen(folder, is_shared=False)
    thread = threading.Thread(target=kept.run, args=(listening,), daemon=True)
    thread.start()
    os.environ[ENGINE] = folder.name

    def end():
        kept.end()
        thread.join(60)

    atexit.register(end)
    return kept


def shared_session():
    shared_keeper()
    return open_session(SparkSettings.from_config({}), urls=URLS)


def java():
    """The Java of the engine, as Py4J shows it."""
    return shared_keeper().jvm.gateway
