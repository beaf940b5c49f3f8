"""What Spark and Java say of a failure, down to the one cause that names the trouble."""

from __future__ import annotations

import re

_UNREACHABLE = re.compile(
    r"Connection (?:refused|reset|timed out)|Connect(?:ion)? timed out|Read timed out"
    r"|UnknownHost|Unable to execute HTTP request|Service Unavailable|SlowDown"
    r"|StatusCode.UNAVAILABLE|failed to connect to all addresses"
)


def innermost_cause(error: BaseException) -> str:
    """Return the message of the innermost cause, which names the actual trouble."""
    texts = [str(error)]
    cause = getattr(error, "_cause", None) or error.__cause__
    while cause is not None:
        texts.append(str(cause))
        cause = getattr(cause, "_cause", None) or cause.__cause__
    causes = re.findall(r"^(?:Caused by|): ([\w.$]+): *(.*)$", "\n".join(texts), re.MULTILINE)
    for kind, text in reversed(causes):
        if text.strip():
            return f"{text.strip()} [{kind}]" if "NotFound" in kind else text.strip()
    first = [text.partition("JVM stacktrace:")[0].strip() for text in texts]
    return " ".join(next((text for text in reversed(first) if text), "no reason given").split())


def is_unreachable(reason: str) -> bool:
    """Say whether something did not answer, which it may do at another time."""
    return _UNREACHABLE.search(reason) is not None
