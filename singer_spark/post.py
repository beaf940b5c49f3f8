"""JSON posted to a URL, which may be a secret and is never shown."""

from __future__ import annotations

import http.client
import ipaddress
import urllib.request
from typing import final
from urllib.parse import urlsplit

from typing_extensions import override

WAIT_SECONDS = 15


class UnpostedError(Exception):
    """The server did not take it; the text says why, in a word or two."""


@final
class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect what it is, an answer that is no success.

    To follow one would carry the token to another host, and turn the message into a request for a
    page, which succeeds.
    """

    @override
    def redirect_request(self, *_arguments: object) -> None:
        return None


def post_json(url: str, message: bytes, *, token: str | None = None) -> None:
    """Post JSON and expect success; a redirect is none."""
    headers = {"Content-Type": "application/json", "User-Agent": "singer-spark"}
    try:
        if token:
            _refuse_open_way(url)
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(url, message, headers)  # noqa: S310, the user's own URL
        # A proxy would hear what is meant for this machine.
        direct = [urllib.request.ProxyHandler({})] if _is_local(url) else []
        with urllib.request.build_opener(_NoRedirect, *direct).open(request, timeout=WAIT_SECONDS):
            pass
    except (OSError, ValueError, http.client.HTTPException) as error:
        code = getattr(error, "code", None)
        raise UnpostedError(f"HTTP {code}" if code else type(error).__name__) from error


def _refuse_open_way(url: str) -> None:
    """Refuse to send a token where others can read it on its way."""
    if urlsplit(url).scheme != "https" and not _is_local(url):
        raise UnpostedError("a token is sent by https only")


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
