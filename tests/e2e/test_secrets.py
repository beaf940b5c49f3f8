"""Runs with a secret in every place that can hold one, failing at every stage: none comes out."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from singer_spark.assignment import RUN_ID
from singer_spark.engine import registry
from singer_spark.engine.jars import cache_folder
from singer_spark.engine.registry import engines_of
from tests.support.commands import command, run, write_json
from tests.support.processes import until

pytestmark = pytest.mark.usefixtures("alone")

VALUE = "p4tient-zer0"  # of a record


class Secrets(dict[str, str]):
    """A text of its own for every place that is asked for one."""

    def __missing__(self, name: str) -> str:
        self[name] = f"zq{len(self):02d}Xs3cr3t{name.replace('_', '').replace('.', '')}"
        return self[name]


class Scene:
    """A home of its own, a pipeline full of secrets, and what was seen of them."""

    def __init__(self, folder: Path) -> None:
        self.hidden = Secrets()
        self.given = folder / "given"  # what the user wrote, which is the user's to guard
        self.world = folder / "world"  # all that a run may leave something in
        self.given.mkdir()
        for name in ("home", "tmp", "cache", "work"):
            (self.world / name).mkdir(parents=True, mode=0o700)
        (self.world / "cache" / "jars").symlink_to(cache_folder() / "jars")
        self.source = f"jdbc:sqlite:{self.world}/work/shop.db"
        self.said = ""
        self.in_list: set[str] = set()

    def env(self) -> dict[str, str]:
        hidden = self.hidden
        return {
            "HOME": str(self.world / "home"),
            "TMPDIR": str(self.world / "tmp"),
            "SINGER_SPARK_CACHE": str(self.world / "cache"),
            "XDG_RUNTIME_DIR": "",
            "AWS_ACCESS_KEY_ID": "AKIA" + hidden["aws_id"],
            "AWS_SECRET_ACCESS_KEY": hidden["aws"],
            "AWS_SESSION_TOKEN": hidden["session"],
            "PGPASSWORD": hidden["pg"],
            "OPENLINEAGE_API_KEY": hidden["lineage_key"],
            "JAVA_TOOL_OPTIONS": f"-Djavax.net.ssl.keyStorePassword={hidden['tool']}",
            "JDK_JAVA_OPTIONS": f"-Djavax.net.ssl.trustStorePassword={hidden['jdk']}",
            "SHOP_PASSWORD": hidden["variable"],
        }

    def pipeline(self, *, spark=None, tap=None, target=None, **more) -> str:
        hidden = self.hidden
        conf = {
            "spark.driver.extraJavaOptions": f"-Dhttps.proxyPassword={hidden['driver']}",
            "spark.executor.extraJavaOptions": f"-Dhttps.proxyPassword={hidden['executor']}",
            "spark.hadoop.fs.s3a.secret.key": hidden["s3a"],
            "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": hidden["azure"],
            "spark.ssl.keyPassword": hidden["ssl"],
            "spark.sql.shuffle.partitions": "1",
            **(spark or {}),
        }
        document = {
            "name": "shop",
            "source": {
                "tap": "tap-spark-source",
                "config": {
                    "source_url": self.source,
                    "source_password": "${SHOP_PASSWORD}",
                    "source_options": {"trustStorePassword": hidden["options"]},
                    "stream_map_config": {"api_key": hidden["maps"]},
                    "spark_conf": conf,
                    **(tap or {}),
                },
            },
            "destination": {
                "target": "target-spark-delta",
                "config": {
                    "path": str(self.world / "work" / "lake"),
                    "stream_map_config": {"api_key": hidden["target_maps"]},
                    "spark_conf": conf,
                    **(target or {}),
                },
            },
            "state": str(self.world / "work" / "state"),
            "alerts": {"webhook": f"http://127.0.0.1:1/services/{hidden['webhook']}"},
            "openlineage": f"http://127.0.0.1:1/{hidden['lineage']}",
            **more,
        }
        return write_json(self.given / "shop.json", document)

    def fill(self, value: object = 1) -> None:
        import sqlite3

        with sqlite3.connect(self.world / "work" / "shop.db") as database:
            database.execute("create table orders (id integer primary key, n integer)")
            database.execute("insert into orders values (1, ?)", [value])

    def act(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with self._watching():
            done = run(command("singer-spark"), *arguments, env=self.env(), cwd=self.world / "work")
        self.said += f"$ {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Look at the list of processes all the time."""
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                for path in Path("/proc").glob("[0-9]*/cmdline"):
                    with suppress(OSError):
                        self.in_list.add(path.read_bytes().decode(errors="replace"))
                time.sleep(0.02)

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def places(self) -> Iterator[tuple[str, str]]:
        """Yield all that there is to search, and where it was found."""
        yield "output", self.said
        for line in self.in_list:
            yield "list of processes", line
        for root in (self.world, *registry._candidates()):
            for path in root.rglob("*") if root.is_dir() else ():
                yield "name", str(path)
                if path.is_file() and not path.is_symlink() and path.suffix not in (".db", ".jsa"):
                    with suppress(OSError):
                        yield str(path), path.read_bytes().decode(errors="replace")

    def found(self, *more: str) -> list[str]:
        wanted = {**self.hidden, **{one: one for one in more}}
        return sorted(
            {
                f"{name} in {where}"
                for where, text in self.places()
                for name, secret in wanted.items()
                if secret in text
            }
        )


@pytest.fixture
def scene(tmp_path):
    yield (made := Scene(tmp_path))
    assert made.said
    assert until(lambda: not engines_of(os.environ[RUN_ID]), 90)
    assert "Traceback" not in made.said
    assert made.found(VALUE) == [], made.said


@contextmanager
def hostile_postgres() -> Iterator[int]:
    """A server that tells every password that it is given."""

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError, struct.error):
            connection.settimeout(20)
            while True:
                (length,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
                body = connection.recv(length - 4, socket.MSG_WAITALL)
                if body[:4] not in (struct.pack("!i", 80877103), struct.pack("!i", 80877104)):
                    break
                connection.sendall(b"N")
            connection.sendall(b"R" + struct.pack("!ii", 8, 3))
            connection.recv(1)
            (length,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
            password = connection.recv(length - 4, socket.MSG_WAITALL).rstrip(b"\0")
            told = b"SFATAL\0VFATAL\0C28P01\0Mno entry with " + password + b"\0\0"
            connection.sendall(b"E" + struct.pack("!i", len(told) + 4) + told)
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=server.accept()[:1], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_settings_that_are_refused(scene):
    hidden = scene.hidden
    file = scene.pipeline(
        tap={"slice_rows": hidden["no_number"], "source_options": {"password": hidden["twice"]}},
        spark={"spark.sql.ansi.enabled": hidden["refused"]},
    )
    assert scene.act("run", file).returncode == 78
    assert scene.act("check", file).returncode == 78


def test_a_state_store_that_is_not_there_and_alerts_that_cannot_be_told(scene):
    hidden = scene.hidden
    state = f"postgresql://me:{hidden['state']}@127.0.0.1:1/states?sslpassword={hidden['st_query']}"
    file = scene.pipeline(state=state)
    for arguments in (["run", file], ["status", file], ["state", "get", file], ["runs", file]):
        assert scene.act(*arguments).returncode != 0, arguments
    assert "127.0.0.1" in scene.said


def test_an_engine_that_cannot_start(scene):
    scene.fill()
    file = scene.pipeline(spark={"spark.driver.memory": "a lot"})
    assert scene.act("run", file).returncode == 78
    scene.act("status", file)
    assert "could not be sent" in scene.said
    assert "was not taken" in scene.said
    assert "Invalid maximum heap size" in scene.said, scene.said


@pytest.mark.slow
def test_a_source_that_is_not_there(scene):
    hidden = scene.hidden
    scene.source = f"jdbc:postgresql://me:{hidden['user_info']}@127.0.0.1:1/shop"
    file = scene.pipeline(tap={"source_password": None})
    assert scene.act("run", file).returncode in (69, 75)
    assert scene.act("check", file).returncode in (69, 75)


@pytest.mark.slow
def test_a_server_that_tells_the_password_it_was_given(scene):
    with hostile_postgres() as port:
        scene.source = f"jdbc:postgresql://127.0.0.1:{port}/shop"
        file = scene.pipeline()
        assert scene.act("run", file).returncode in (69, 75)
    assert "no entry with ***" in scene.said


@pytest.mark.slow
def test_a_value_that_cannot_be_read(scene):
    scene.fill(VALUE)
    file = scene.pipeline(tap={"source_options": None})
    assert scene.act("run", file).returncode == 65
    assert "is no value of its column's declared type" in scene.said
    scene.act("runs", file)
    scene.act("status", file)


@pytest.mark.slow
def test_a_load_that_fails(scene):
    scene.fill()
    (scene.world / "work" / "lake").mkdir()
    (scene.world / "work" / "lake" / "main_orders").write_text("no folder")
    file = scene.pipeline(
        tap={"source_options": None}, target={"path": str(scene.world / "work" / "lake")}
    )
    assert scene.act("run", file).returncode != 0
    scene.act("runs", file)


@pytest.mark.slow
def test_a_run_that_succeeds(scene):
    scene.fill()
    file = scene.pipeline(tap={"source_options": None})
    assert scene.act("run", file).returncode == 0, scene.said
    records = list((scene.world / "work" / "state").rglob("runs/*.json"))
    assert [json.loads(path.read_text())["status"] for path in records] == ["succeeded"]


def test_the_search_finds_what_is_there(tmp_path):
    scene = Scene(tmp_path)
    (left := scene.world / "home" / "left").write_text(scene.hidden["left"])
    with scene._watching():
        subprocess.run(["sh", "-c", "sleep 0.2; : $0", scene.hidden["listed"]], check=True)
    found = scene.found()
    assert f"left in {left}" in found
    assert "listed in list of processes" in found
    assert os.environ["HOME"] != scene.env()["HOME"]
