"""The one Spark engine of a test run, warm for all of its tests and the commands they start."""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import tempfile
import threading
from pathlib import Path

from filelock import FileLock
from py4j.java_gateway import GatewayParameters, JavaGateway

from singer_spark.engine import keeper, registry
from singer_spark.engine.lease import ENGINE
from singer_spark.engine.session import open_session
from singer_spark.engine.spec import Spec
from singer_spark.settings import SparkSettings

URLS = ["jdbc:postgresql://", "jdbc:sqlite:", "avro:", "s3a://", "kafka:"]
URLS_OF_SLOW_TESTS = ["jdbc:mariadb:", "jdbc:mysql:"]


def shared_session():
    """Open this process's session on the engine of the test run."""
    _engine()
    return open_session(SparkSettings.from_config({}), urls=URLS)


@functools.cache
def java():
    """The Java of the engine, as Py4J shows it."""
    port, secret = _engine()
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))


@functools.cache
def _engine() -> tuple[int, str]:
    """Use the engine that another process of this test run keeps, or keep one for it."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    known = Path(tempfile.gettempdir()) / f"singer-spark-tests-{run}"
    with FileLock(f"{known}.lock"):
        if not known.exists():
            known.write_text(json.dumps(_keep()))
            atexit.register(known.unlink)
    engine, port, secret = json.loads(known.read_text())
    os.environ[ENGINE] = engine
    return port, secret


def _keep() -> tuple[str, int, str]:
    """Keep an engine in this process until nobody uses it, so that tests can look into its Java."""
    folder = registry.make_engine_folder()
    kept = keeper.Keeper(Spec.of(SparkSettings.from_config({}), URLS), 0.0, folder)
    listening = keeper.listen(folder, is_shared=False)
    thread = threading.Thread(target=kept.run, args=(listening,), daemon=True)
    thread.start()
    atexit.register(thread.join)
    kept.started.wait()
    client = kept.jvm.gateway.gateway_parameters
    return folder.name, client.port, client.auth_token
