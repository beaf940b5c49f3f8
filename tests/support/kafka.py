"""A real Kafka broker and a real Debezium connector, as processes from Maven jars."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from singer_spark.engine.jars import resolve, spark_jars
from singer_spark.engine.java import find_java

# Another project's metrics-core than the one that Spark ships.
BROKER = ("org.apache.kafka:kafka_2.13:4.0.0", "com.yammer.metrics:metrics-core:2.2.0")
CONNECT = ("org.apache.kafka:connect-runtime:4.0.0", "org.apache.kafka:connect-json:4.0.0")
DEBEZIUM = ("io.debezium:debezium-connector-postgres:3.2.0.Final",)
# Of what Spark ships, the parts that these programs share with it.
_SHARED = ("scala-", "jackson-", "slf4j-", "jakarta", "jersey-", "hk2-", "aopalliance", "osgi")
_SHARED += ("zstd-", "lz4-", "snappy-", "log4j-slf4j", "log4j-core", "log4j-api")
_SHARED += ("javassist", "commons-lang", "guava", "jline", "commons-cli", "commons-io")


class Service:
    """A Java program that runs in a folder of its own until it is stopped."""

    def __init__(self, folder: Path, *groups: tuple[str, ...]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        shared = [jar for jar in spark_jars().glob("*.jar") if jar.name.startswith(_SHARED)]
        self._class_path = os.pathsep.join(map(str, [*resolve(groups), *shared]))
        self._log = folder / "log.txt"
        self._process: subprocess.Popen | None = None

    def command(self, main: str, *arguments: str) -> list[str]:
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", self._class_path]
        return [find_java().command, *options, main, *arguments]

    def file(self, name: str, properties: Mapping[str, object]) -> str:
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return str(path)

    def start(self, main: str, *arguments: str) -> None:
        with self._log.open("w") as log:
            command = self.command(main, *arguments)
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder
            )

    def wait(self, is_ready: Callable[[], bool], what: str, seconds: float = 120) -> None:
        """Wait until something is true, or fail with the end of the log."""
        deadline = time.monotonic() + seconds
        while not is_ready():
            is_dead = self._process is not None and self._process.poll() is not None
            if is_dead or time.monotonic() > deadline:
                raise AssertionError(f"{what} not reached: {self._log.read_text()[-3000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class KafkaBroker(Service):
    """One broker that is its own controller."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="kafka-")), BROKER)
        self.port, controller = free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}"
        settings = self.file(
            "server.properties",
            {
                "process.roles": "broker,controller",
                "node.id": 1,
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": listeners,
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": self.folder / "logs",
                "num.partitions": 1,
                "offsets.topic.num.partitions": 1,
                "offsets.topic.replication.factor": 1,
                "transaction.state.log.num.partitions": 1,
                "transaction.state.log.replication.factor": 1,
                "transaction.state.log.min.isr": 1,
            },
        )
        cluster = "TmV2ZXIgbWluZCB0aGlzIQ"
        format_logs = ("format", "-t", cluster, "-c", settings)
        subprocess.run(
            self.command("kafka.tools.StorageTool", *format_logs), check=True, capture_output=True
        )
        self.start("kafka.Kafka", settings)
        self.wait(lambda: is_open(self.port), "the broker")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Debezium(Service):
    """A Kafka Connect worker with connectors that follow a PostgreSQL database."""

    def __init__(self, broker: KafkaBroker, connectors: Mapping[str, Mapping[str, object]]) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="connect-")), CONNECT, DEBEZIUM)
        worker = {
            "bootstrap.servers": broker.address,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": self.folder / "offsets",
            "offset.flush.interval.ms": 1000,
            "listeners": f"http://127.0.0.1:{free_port()}",
        }
        files = [
            self.file(f"{name}.properties", {"name": name, **settings})
            for name, settings in connectors.items()
        ]
        self.start(
            "org.apache.kafka.connect.cli.ConnectStandalone",
            self.file("worker.properties", worker),
            *files,
        )

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def follows(broker: KafkaBroker, topic: str, **options) -> dict:
    """Return the config of a tap that follows a topic, with these options of its stream."""
    return {
        "source_url": f"kafka:{broker.address}",
        "tables": [topic],
        "stream_options": {"*": options},
    }
