"""Which cause of a failure is told, and which is worth another try."""

from __future__ import annotations

import pytest

from singer_spark.errors import innermost_cause, is_unreachable

JAVA = """An error occurred while calling o56.text.
: java.lang.RuntimeException: outer
\tat org.example.Reader.read(Reader.java:1)
Caused by: java.lang.ClassNotFoundException: Class org.example.Files not found
\tat org.example.Loader.load(Loader.java:1)
Caused by: java.lang.IllegalStateException:
"""


def test_of_nested_causes_the_innermost_that_says_something_is_told():
    assert innermost_cause(RuntimeError(JAVA)) == (
        "Class org.example.Files not found [java.lang.ClassNotFoundException]"
    )
    assert innermost_cause(ValueError("plain\nJVM stacktrace:\nx")) == "plain"
    assert innermost_cause(ValueError("")) == "no reason given"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Connection refused (Connection refused)", True),
        ("Unable to execute HTTP request: Read timed out", True),
        ("Class org.example.Files not found", False),
        ("the connection string is refused", False),
    ],
)
def test_what_did_not_answer_may_do_so_later(reason, expected):
    assert is_unreachable(reason) is expected
