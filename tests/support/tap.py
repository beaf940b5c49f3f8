"""What the tap's tests share: a tap run inside the process, a Derby and a PostgreSQL database."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from singer_spark.engine.jars import spark_jars
from singer_spark.protocol import AT_BOOKMARK
from tap_spark_source.tap import TapSparkSource


@dataclass(frozen=True)
class Output:
    """The messages of one run."""

    messages: list[dict]
    text: str

    def of(self, kind: str, stream: str | None = None) -> list[dict]:
        return [
            message
            for message in self.messages
            if message["type"] == kind and stream in (None, message.get("stream"))
        ]

    def records(self, stream: str | None = None) -> list[dict]:
        return [message["record"] for message in self.of("RECORD", stream)]

    @property
    def state(self) -> dict:
        return self.of("STATE")[-1]["value"]

    def bookmark(self, stream: str) -> dict:
        return self.state["bookmarks"][stream]

    @property
    def position(self) -> dict:
        """Return the state without what only saves work."""
        bookmarks = {
            stream: {name: value for name, value in bookmark.items() if name != AT_BOOKMARK}
            for stream, bookmark in self.state["bookmarks"].items()
        }
        return {**self.state, "bookmarks": bookmarks}

    @property
    def kinds(self) -> list[str]:
        return [message["type"] for message in self.messages]


def run_tap(
    config: dict,
    *,
    state: dict | None = None,
    catalog: dict | None = None,
    fails: type[Exception] | None = None,
) -> Output:
    """Run a whole sync, to its end or to the error, and parse what it wrote to standard output."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), pytest.raises(fails) if fails else nullcontext():
        TapSparkSource(config=dict(config), state=state, catalog=catalog).sync_all()
    out.seek(0)
    text = out.read()
    # Not splitlines, which also splits inside texts that hold U+2028.
    *lines, rest = text.split("\n")
    assert rest == ""
    messages = [json.loads(line, parse_float=Decimal) for line in lines]
    return Output(messages=messages, text=text)


def previews(config: dict, *, state: dict | None = None) -> list[dict]:
    """Return what a run would read."""
    return TapSparkSource(config=dict(config), state=state).previews()


def discover(config: dict) -> dict:
    """Return the catalog of a discovery, by way of its JSON."""
    tap = TapSparkSource(config=dict(config), setup_mapper=False)
    return json.loads(tap.catalog_json_text)


def entry_of(catalog: dict, stream: str) -> dict:
    return next(entry for entry in catalog["streams"] if entry["tap_stream_id"] == stream)


def metadata_of(entry: dict, *breadcrumb: str) -> dict:
    return next(
        item["metadata"] for item in entry["metadata"] if item["breadcrumb"] == list(breadcrumb)
    )


def make_derby(folder: Path, statements: str) -> str:
    """Create a Derby database by its own tool and return its URL."""
    url = f"jdbc:derby:{folder}"
    script = folder.with_suffix(".sql")
    script.write_text(f"connect '{url};create=true';\n{statements}\nexit;\n")
    jars = os.pathsep.join(str(jar) for jar in spark_jars().glob("derby*.jar"))
    done = subprocess.run(
        ["java", "-cp", jars, "org.apache.derby.tools.ij", str(script)],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder.parent,
    )
    assert "ERROR" not in done.stdout, done.stdout
    return url


class Postgres:
    """A PostgreSQL server of its own on a free port, from the pgserver wheel."""

    user, password, database = "postgres", "s3cret-of-pg", "postgres"

    def __init__(self, **settings: str) -> None:
        from pgserver._commands import POSTGRES_BIN_PATH, initdb, pg_ctl
        from pgserver.utils import ensure_prefix_permissions, ensure_user_exists

        # Not a folder of pytest's, which other users may not enter.
        self._folder = Path(tempfile.mkdtemp(prefix="tap-postgres-"))
        self._folder.chmod(0o755)
        self._data, self._account, self._pg_ctl = self._folder / "data", None, pg_ctl
        self._data.mkdir()
        if os.geteuid() == 0:
            self._account = "pgserver"
            ensure_user_exists(self._account)
            ensure_prefix_permissions(self._data)
            ensure_prefix_permissions(POSTGRES_BIN_PATH)
            entry = pwd.getpwnam(self._account)
            os.chown(self._data, entry.pw_uid, entry.pw_gid)
        secret = self._folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        options = ["--auth-host=scram-sha-256", "--encoding=utf8", "-U", self.user]
        initdb([*options, "--pwfile", str(secret)], pgdata=self._data, user=self._account)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        server = f"-h 127.0.0.1 -p {self.port} -k {self._data} -c log_statement=all -c fsync=off"
        server += "".join(f" -c {name}={value}" for name, value in settings.items())
        start = ["-w", "-o", server, "-l", str(self._data / "log"), "start"]
        pg_ctl(start, pgdata=self._data, user=self._account)

    @property
    def config(self) -> dict:
        return {
            "source_url": f"jdbc:postgresql://127.0.0.1:{self.port}/{self.database}",
            "source_user": self.user,
            "source_password": self.password,
        }

    def reads(self, *tables: str, settings: dict | None = None, **options) -> dict:
        """Return the config of a tap that reads these tables, with these options of streams."""
        return {
            **self.config,
            "tables": [f"public.{table}" for table in tables],
            "stream_options": {"*": options},
            **(settings or {}),
        }

    def fresh(self, name: str) -> Postgres:
        """Return the same server with a new, empty database."""
        self.run(f"create database {name}", autocommit=True)
        other = copy.copy(self)
        other.database = name
        return other

    def connect(self, **options):
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=self.database,
            **options,
        )

    def run(self, statements: str, **options) -> None:
        with self.connect(**options) as connection:
            connection.execute(statements)

    def rows(self, query: str) -> list[tuple]:
        """Ask the server by a client of its own."""
        with self.connect() as connection:
            return connection.execute(query).fetchall()

    def log(self) -> str:
        """Return what the server was asked so far."""
        return (self._data / "log").read_text()

    def asked(self, start: int = 0) -> list[str]:
        """Return the statements since then, those aside by which Spark asks for types."""
        lines = self.log()[start:].splitlines()
        return [line for line in lines if "execute" in line and "WHERE 1=0" not in line]

    def stop(self) -> None:
        self._pg_ctl(["-w", "-m", "fast", "stop"], pgdata=self._data, user=self._account)
        shutil.rmtree(self._folder)
