"""A store that takes conditional writes and ignores their conditions."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from singer_spark.errors import StateError
from singer_spark.storage.objects import refuse_unconditional
from tests.support.shop import TAP, invoke, make_folder, write, write_pipeline

CATALOG = '{"streams": [{"tap_stream_id": "public-orders"}]}'


@pytest.fixture
def heedless(s3_endpoint, monkeypatch):
    """The S3 server behind a proxy that drops the conditions of requests."""
    place = urlsplit(s3_endpoint)

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("if-match", "if-none-match")
            }
            server = http.client.HTTPConnection(place.hostname, place.port)
            server.request(self.command, self.path, body, kept)
            answer = server.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    for method in ("GET", "PUT", "DELETE", "HEAD", "POST"):
        setattr(Proxy, f"do_{method}", Proxy.forward)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()


def command(*arguments):
    result = invoke(*arguments)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def work(tmp_path, monkeypatch, s3, heedless):
    make_folder(tmp_path, monkeypatch)
    write("tap-fake", f"if '--discover' in sys.argv: print('{CATALOG}'); sys.exit()\n" + TAP)
    write_pipeline("orders", more=f"state: s3://{s3}/state\n")
    return s3


@pytest.mark.usefixtures("work")
def test_a_first_run_and_check_refuse_it(s3_client, work):
    code, _, err = command("run", "orders")
    assert code == 74
    (line,) = err.splitlines()
    assert "ignores the conditions of writes" in line
    assert "lock: none" in line
    code, out, _ = command("check", "orders")
    assert code == 74
    assert "✗ state store" in out
    assert s3_client.list_objects_v2(Bucket=work)["KeyCount"] == 0


def test_lock_none_runs_without_a_lock_and_says_so_once(work):
    write_pipeline("orders", more=f"state: s3://{work}/state\nlock: none\n")
    spy = 'path = os.environ["SINGER_SPARK_RUN_FILE"]\n'
    spy += 'if path: open("run-file", "w").write(open(path).read())\n'
    spy += 'open("url", "w").write(os.environ["SINGER_SPARK_STATE_URL"])\n'
    write("tap-fake", f"if '--discover' in sys.argv: print('{CATALOG}'); sys.exit()\n" + spy + TAP)
    for _ in range(2):
        code, _, err = command("run", "orders")
        assert code == 0, err
        assert err.count("Warning: orders: lock: none") == 1
    assert '"generation": null' in Path("run-file").read_text()
    assert Path("url").read_text() == ""
    code, out, _ = command("check", "orders")
    assert code == 0, out
    assert "without a lock; 2 runs" in out
    assert '"public-orders": 340' in "".join(command("state", "get", "orders")[1])


def test_a_server_that_heeds_them_is_asked_in_a_first_run_only(bench, s3, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "singer_spark.state.lock.refuse_unconditional", lambda *where: asked.append(where)
    )
    for _ in range(2):
        bench.run(state=f"s3://{s3}/state")
    assert len(asked) == 1


def test_every_store_keeps_conditions_and_nothing_is_left(store):
    refuse_unconditional(store.objects, "p")
    assert [name for name in store.objects.list("p") if "probe" in name] == []


def test_another_value_of_lock_is_refused(tmp_path, monkeypatch):
    make_folder(tmp_path, monkeypatch)
    write_pipeline("orders", more="lock: maybe\n")
    code, _, err = command("run", "orders")
    assert code == 78
    assert "lock: must be one of auto, none" in err


def test_a_write_over_an_old_version_that_passes_is_found_too(store, monkeypatch):
    write_ = store.objects.write
    from singer_spark.storage.objects import Expect

    def careless(key, body, expected):
        return write_(key, body, Expect.ANYTHING if isinstance(expected, str) else expected)

    monkeypatch.setattr(store.objects, "write", careless)
    with pytest.raises(StateError, match="ignores the conditions"):
        refuse_unconditional(store.objects, "p")
