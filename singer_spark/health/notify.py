"""Alerts: sent once when a condition appears and once when it is over, at least.

What was sent is kept in the store. It is noted afterwards, so that what could not be sent, or not
be noted, is sent again by the next status.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from singer_spark.errors import SingerSparkError, StateError
from singer_spark.health.collect import Checked
from singer_spark.health.rules import Level
from singer_spark.pipeline import Alerts
from singer_spark.post import WAIT_SECONDS, UnpostedError, post_json
from singer_spark.state import StateStore
from singer_spark.storage.objects import Expect, tag_of
from singer_spark.text import one_line

SENT = "_alerts/sent.json"  # of a store; no pipeline's name begins so


class Notice(NamedTuple):
    """One alert."""

    kind: str
    body: Mapping[str, Any]


class UnsentError(SingerSparkError):
    """An alert could not be sent. The next look sends it again."""

    def __init__(self, pipeline: str, way: str, why: str) -> None:
        super().__init__(
            f"{pipeline}: its alert could not be sent by {way} ({why}); check alerts.{way}. "
            "The next status sends it again"
        )


def send_alerts(checked: Iterable[Checked]) -> list[SingerSparkError]:
    """Send what is new of the pipelines that ask for it; gives what went wrong with that."""
    by_store: dict[int, list[Checked]] = defaultdict(list)
    for one in checked:
        if one.alerts.webhook or one.alerts.command:
            by_store[id(one.store)].append(one)
    return [error for group in by_store.values() for error in _send_group(group[0].store, group)]


def plan_notices(one: Checked, known: Mapping[str, Mapping[str, str]]) -> Iterator[Notice]:
    """Plan the alerts of a pipeline, given the conditions that were sent and are not yet over."""
    health = one.health
    for finding in health.findings:
        told = known.get(finding.kind)
        word = finding.level.name.lower()
        if told is None or finding.level > Level[told["level"].upper()]:
            yield _notice(health.pipeline, finding.kind, word, finding.reason)
    current = {finding.kind for finding in health.findings}
    for kind, told in known.items():
        if kind not in current:
            yield _notice(health.pipeline, kind, "resolved", told["reason"])


def _notice(pipeline: str, kind: str, word: str, reason: str) -> Notice:
    reason = one_line(reason)
    text = f"singer-spark: {pipeline}: {word}: {reason}"
    body = {"text": text, "pipeline": pipeline, "kind": kind, "level": word, "reason": reason}
    return Notice(kind, body)


def _send_group(store: StateStore | None, group: Iterable[Checked]) -> list[SingerSparkError]:
    """Send the alerts of a store's pipelines; where it cannot be read, all of them each time."""
    errors: list[SingerSparkError] = []
    before: dict[str, Any] = {}
    expected: str | Expect = Expect.ANYTHING
    if store:
        try:
            stored = store.objects.read(SENT)
            before, expected = store.documents.parse_own(SENT, stored), tag_of(stored)
        except StateError as error:
            errors.append(error)
            store = None
    after = {name: dict(known) for name, known in before.items()}
    for one in group:
        errors += _send_alerts_of(one, after.setdefault(one.health.pipeline, {}))
    after = {name: known for name, known in after.items() if known}
    if store and after != before:
        errors += _note(store, after, expected)
    return errors


def _send_alerts_of(one: Checked, known: dict[str, Mapping[str, str]]) -> list[SingerSparkError]:
    """Send what is new of one pipeline, and note what was sent."""
    errors: list[SingerSparkError] = []
    for notice in list(plan_notices(one, known)):
        try:
            _send(one.alerts, notice.body)
        except UnsentError as error:
            errors.append(error)
            continue
        if notice.body["level"] == "resolved":
            del known[notice.kind]
        else:
            known[notice.kind] = {key: notice.body[key] for key in ("level", "reason")}
    return errors


def _note(
    store: StateStore, sent: Mapping[str, Any], expected: str | Expect
) -> list[SingerSparkError]:
    try:
        store.documents.write_own(SENT, sent, expected)
    except StateError as error:
        return [error]
    return []


def _send(alerts: Alerts, body: Mapping[str, Any]) -> None:
    message = json.dumps(body, ensure_ascii=False).encode()
    if alerts.webhook:
        _post(body["pipeline"], alerts.webhook, message)
    if alerts.command:
        _run(body["pipeline"], alerts.command, message)


def _post(pipeline: str, url: str, message: bytes) -> None:
    try:
        post_json(url, message)
    except UnpostedError as error:
        raise UnsentError(pipeline, "webhook", str(error)) from error


def _run(pipeline: str, command: str, message: bytes) -> None:
    """Run a command, without a shell, with the message as its input."""
    try:
        subprocess.run(  # noqa: S603, the user's own command
            shlex.split(command),
            input=message,
            check=True,
            timeout=WAIT_SECONDS,
            stdout=subprocess.DEVNULL,
        )
    except subprocess.CalledProcessError as error:
        raise UnsentError(pipeline, "command", f"exit code {error.returncode}") from error
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UnsentError(pipeline, "command", type(error).__name__) from error
