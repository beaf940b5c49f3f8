"""A small web server that keeps what is posted to it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Posted(list):
    """The bodies that were taken, with their paths and tokens beside."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []
        self.tokens: list[str | None] = []


@contextmanager
def webhook(codes=()):
    """A server that answers with the given codes, then with 200, and keeps what it took."""
    got, answers = Posted(), list(codes)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code = answers.pop(0) if answers else 200
            if code == 200:
                got.append(json.loads(body))
                got.paths.append(self.path)
                got.tokens.append(self.headers.get("Authorization"))
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hidden", got
    server.shutdown()
    server.server_close()
