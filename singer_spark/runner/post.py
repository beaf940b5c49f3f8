"""JSON posted to a URL, which may be a secret and is never told."""

from __future__ import annotations

import http.client
import urllib.request

WAIT_SECONDS = 15


class UnpostedError(Exception):
    """The server did not take it; the text says why, in a word or two."""


def post_json(url: str, message: bytes, *, token: str | None = None) -> None:
    """Post JSON and expect success."""
    headers = {"Content-Type": "application/json", "User-Agent": "singer-spark"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        request = urllib.request.Request(url, message, headers)  # noqa: S310, the user's own URL
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS):  # noqa: S310
            pass
    except (OSError, ValueError, http.client.HTTPException) as error:
        code = getattr(error, "code", None)
        raise UnpostedError(f"HTTP {code}" if code else type(error).__name__) from error
