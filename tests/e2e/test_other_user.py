"""Another user of the machine cannot use, see or follow what Spark does for this one."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from singer_spark.engine import session
from singer_spark.engine.connect import EngineChannel, short_patience
from singer_spark.engine.lease import start_engine
from singer_spark.engine.registry import engine_folder
from singer_spark.engine.spec import Spec
from singer_spark.settings import SparkSettings
from tests.support.commands import command, write_json
from tests.support.processes import (
    OWN,
    are_gone,
    as_nobody,
    engines,
    java_of,
    keeper_of,
    listening,
    needs_root,
    unix_sockets,
    until,
)
from tests.support.session import java
from tests.support.singer import lines, record, schema, state

pytestmark = needs_root

# Whoever has no token, and whoever has a wrong one.
CALL = """
channel = grpc.composite_channel_credentials(
    grpc.local_channel_credentials(), grpc.access_token_call_credentials(sys.argv[2])
) if sys.argv[2] else grpc.local_channel_credentials()
stub = base_pb2_grpc.SparkConnectServiceStub(
    grpc.secure_channel(f"ipv4:127.0.0.1:{sys.argv[1]}", channel)
)
request = base_pb2.ConfigRequest(session_id="00112233-4455-6677-8899-aabbccddeeff")
request.user_context.user_id = sys.argv[3]
request.operation.get_all.SetInParent()
try:
    stub.Config(request, timeout=30)
    say("answered")
except grpc.RpcError as error:
    say(error.code().name)
"""
CALL_IMPORTS = """
import grpc
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
"""
GATEWAY = """
gateway = JavaGateway(
    gateway_parameters=GatewayParameters(port=int(sys.argv[1]), auth_token=sys.argv[2] or None)
)
try:
    say(str(gateway.jvm.java.lang.System.getProperty("user.name")))
except Exception as error:
    say(type(error).__name__)
"""
READ = """
found = []
for root in sys.argv[1:]:
    for folder, _, names in os.walk(root):
        if folder != root or os.path.basename(root).startswith("engine"):
            found.append(folder)
        for name in names:
            try:
                open(os.path.join(folder, name), "rb").close()
                found.append(os.path.join(folder, name))
            except PermissionError:
                pass
say(found)
"""
DIAL = """
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
    say("connected")
except OSError as error:
    say(type(error).__name__)
"""
# What a stranger may try on a port whose protocol is not known: to ask for a page, a file, a word.
ASK = """
told = {}
page = b"GET / HTTP/1.0\\r\\n\\r\\n"
for port in sys.argv[1:]:
    for word in (page, page.replace(b"/ ", b"/jars/x "), bytes(64), b"x\\ne\\n"):
        try:
            with socket.create_connection(("127.0.0.1", int(port)), 5) as asked:
                asked.settimeout(2)
                asked.sendall(word)
                told.setdefault(port, []).append(asked.recv(4096).decode("latin-1"))
        except OSError as error:
            told.setdefault(port, []).append("")
say(told)
"""
DIAL_ALL = """
reached = []
for name in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect("\\0" + name[1:] if name[0] == "@" else name)
        reached.append(name)
    except OSError:
        pass
say(reached)
"""
# It speaks as much HTTP/2 as makes a client go on, and keeps what it hears.
LISTEN = """
listening = socket.socket()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listening.bind(("127.0.0.1", int(sys.argv[1])))
listening.listen()
listening.settimeout(30)
heard = b""
try:
    while True:
        connection, _ = listening.accept()
        connection.settimeout(5)
        connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        try:
            while block := connection.recv(65536):
                heard += block
        except OSError:
            pass
except OSError:
    pass
say(heard.hex())
"""


@pytest.fixture
def warm(spark):
    """The engine that the tests share."""
    return session._lease


@pytest.mark.parametrize("token", ["", "0" * 64], ids=["no token", "a wrong token"])
def test_the_port_of_spark_is_of_no_use(warm, token):
    asked = (CALL_IMPORTS, CALL, warm.port)
    assert as_nobody(*asked, token, warm.user) in ("UNAUTHENTICATED", "PERMISSION_DENIED")
    assert as_nobody(*asked, warm.token, warm.user) == "answered", "the token makes the difference"


@pytest.mark.parametrize("word", ["", "0" * 64], ids=["no word", "a wrong word"])
def test_the_port_of_the_gateway_is_of_no_use(spark, word):
    known = java().gateway_parameters
    asked = ("from py4j.java_gateway import GatewayParameters, JavaGateway", GATEWAY, known.port)
    assert as_nobody(*asked, word).startswith("Py4J")
    assert as_nobody(*asked, known.auth_token) == "root", "the word makes the difference"


def test_the_socket_cannot_be_reached(warm):
    folder = engine_folder(warm.engine)
    assert as_nobody("import socket", DIAL, folder / "socket") == "PermissionError"


@pytest.fixture
def temporary():
    """A folder for temporary files that everybody can enter, as /tmp is."""
    folder = Path(tempfile.mkdtemp(prefix="others-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def target(alone, temporary, tmp_path):
    """A run with a Spark of its own that has loaded something and waits for more."""
    config = {"path": str(tmp_path / "lake"), "batch_wait_seconds": 1, **OWN}
    before = os.umask(0o000)
    process = subprocess.Popen(
        [command("target-spark-delta"), "--config", write_json(tmp_path / "c.json", config)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    os.umask(before)
    rows = [record("s", {"id": number}) for number in range(100)]
    process.stdin.write(lines([schema("s", {"id": {"type": "integer"}}, ["id"]), *rows]))
    process.stdin.write(lines([state({"at": 1})]))
    process.stdin.flush()
    assert until(lambda: list((tmp_path / "lake").glob("s/_delta_log/*1.json")) or engines(), 120)
    assert until(lambda: (tmp_path / "lake" / "s" / "_delta_log").is_dir(), 120)
    yield process
    if process.poll() is None:
        process.communicate(timeout=120)
    assert are_gone()


def test_no_file_of_a_run_can_be_read(target, temporary):
    """Those who start it may take no rights from new files at all."""
    (engine,) = engines()
    found = as_nobody("", READ, temporary, engine_folder(engine), engine_folder(engine).parent)
    assert found == []
    made = [path for path in temporary.rglob("*") if stat.S_ISREG(path.lstat().st_mode)]
    assert made, "there was something to read"


def test_no_port_and_no_socket_of_a_run_is_of_use(target, temporary):
    """Whatever its processes listen on, whether we know of it or not."""
    (engine,) = engines()
    processes = [target.pid, keeper_of(engine), java_of(engine)]
    ports = listening(processes)
    assert {address for address, _ in ports} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert len(ports) >= 2, "Spark and its gateway listen"
    told = as_nobody("import socket", ASK, *(port for _, port in ports))
    for port, answers in told.items():
        # An HTTP/2 server greets everybody; it says nothing of what it has.
        assert not any("200" in said or "spark" in said.lower() for said in answers), port
        assert max(map(len, answers)) < 200, port
    sockets = unix_sockets(processes)
    assert str(engine_folder(engine) / "socket") in sockets
    assert as_nobody("import socket", DIAL_ALL, *sockets) == []


def test_who_takes_the_port_of_a_spark_that_is_gone_hears_nothing(alone):
    spec = Spec.of(SparkSettings.from_config(OWN), [])
    lease = start_engine(spec)
    assert lease.take(spec) is None
    client = session._opened(EngineChannel(lease))
    client.client.set_retry_policies([short_patience()])
    assert client.sql("select 'first'").collect()
    os.kill(java_of(lease.engine), signal.SIGKILL)
    assert until(lambda: lease.ended)
    heard: list[str] = []

    def listen():
        heard.append(as_nobody("import socket", LISTEN, lease.port))

    listener = threading.Thread(target=listen)
    listener.start()
    assert until(lambda: _listens(lease.port), 30)
    with pytest.raises(PySparkException):
        client.sql("select 'secret'").collect()
    listener.join(90)
    said = bytes.fromhex(heard[0])
    assert lease.token.encode() not in said
    assert b"secret" not in said
    lease.end()
    assert are_gone()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
