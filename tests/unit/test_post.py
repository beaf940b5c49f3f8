"""Messages to webhooks and lineage servers: no redirect is followed, no token goes in the open."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from singer_spark.post import UnpostedError, post_json

TOKEN = "-".join(["a", "bearer"])


@pytest.fixture
def servers():
    """A server that answers with a status and leads to another; what both were asked."""
    seen: list[tuple[str, str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append((self.command, self.path, self.headers["Authorization"]))
            self.send_response(int(self.path.strip("/")))
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
            self.end_headers()

        def do_GET(self):
            seen.append((self.command, self.path, self.headers["Authorization"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_nor_counts_as_delivered(servers, status):
    url, seen = servers
    with pytest.raises(UnpostedError, match=str(status)):
        post_json(f"{url}/{status}", b"{}", token=TOKEN)
    assert seen == [("POST", f"/{status}", "Bearer a-bearer")]


def test_success_is_success(servers):
    url, seen = servers
    post_json(f"{url}/201", b"{}", token=TOKEN)
    assert seen == [("POST", "/201", "Bearer a-bearer")]


def test_a_token_never_goes_in_the_open():
    with pytest.raises(UnpostedError, match="https"):
        post_json("http://lineage.example/api", b"{}", token=TOKEN)


def test_no_proxy_hears_what_is_meant_for_this_machine(servers, monkeypatch):
    url, seen = servers
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    post_json(f"{url}/201", b"{}", token=TOKEN)
    assert seen == [("POST", "/201", "Bearer a-bearer")]
