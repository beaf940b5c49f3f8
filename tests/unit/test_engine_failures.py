"""Why Spark did not start or has ended: what mends by itself, and what somebody has to change."""

from __future__ import annotations

import socket

import pytest

from singer_spark.engine import failures
from singer_spark.engine.failures import (
    OUT_OF_MEMORY,
    Vigil,
    check_master,
    early_end,
    failed_start,
    late_end,
)
from singer_spark.errors import SettingsError, TransientError

NO_HEAP = """Picked up JAVA_TOOL_OPTIONS: -Xss4m
Invalid maximum heap size: -Xmxabc
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""
NO_ROOM = """# There is insufficient memory for the Java Runtime Environment to continue.
# Native memory allocation (mmap) failed to map 262144 bytes
"""


class JavaError(Exception):
    """As Py4J raises what Java raised."""

    java_exception = None


def java_error(*causes):
    frame = "\n\tat java.net.URLClassLoader.find(X.java)\n"
    return JavaError(f"An error occurred.\n: {f'{frame}Caused by: '.join(causes)}{frame}")


@pytest.mark.parametrize(
    ("code", "said", "kind", "words"),
    [
        (1, NO_HEAP, SettingsError, "Invalid maximum heap size: -Xmxabc; correct spark.driver"),
        (1, "Error: Could not find or load main class a.B", SettingsError, "main class a.B"),
        (1, NO_ROOM, TransientError, "insufficient memory"),
        (-9, "", TransientError, "Java said nothing"),
        (None, "OpenJDK warning: slow", TransientError, "OpenJDK warning: slow"),
    ],
)
def test_a_java_that_ends_early_says_whether_another_try_helps(code, said, kind, words):
    error = early_end(code, said)
    assert type(error) is kind
    assert words in error.message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (java_error("x.IllegalArgumentException: spark.x should be int"), SettingsError),
        (java_error("x.E: a", "java.lang.ClassNotFoundException: org.X"), SettingsError),
        (java_error("java.io.FileNotFoundException: File file:/x does not exist"), SettingsError),
        (java_error("x.E: a", "java.io.IOException: Failed to connect"), TransientError),
        (java_error("java.net.BindException: Address already in use"), TransientError),
        (java_error("java.io.IOException: No space left on device"), TransientError),
        (java_error("x.IllegalStateException: on a stopped SparkContext"), TransientError),
        (TimeoutError("timed out: TimeoutException"), TransientError),
    ],
)  # fmt: skip
def test_a_start_that_fails_names_the_innermost_reason(error, kind):
    found = failed_start(error)
    assert type(found) is kind
    assert len(found.message.splitlines()) == 1
    assert "URLClassLoader" not in found.message


@pytest.mark.parametrize(
    ("code", "words"), [(3, "raise spark.driver.memory"), (-9, "was killed"), (134, "code 134")]
)
def test_an_end_is_explained(code, words):
    assert words in late_end(code)


def test_a_master_that_is_not_there_is_said_at_once():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(TransientError, match=f"no Spark master answers at {nobody}"):
            check_master(f"spark://{nobody}")
        unused.listen()
        check_master(f"spark://127.0.0.1:1,{nobody}")
    check_master("local[*]")


class FakeJava:
    """Answers with the seconds of garbage collection that it is given, None for no answer."""

    def __init__(self, *answers):
        self._answers = list(answers)

    def garbage_seconds(self):
        answer = self._answers.pop(0)
        if answer is None:
            raise TimeoutError("timed out")
        return answer


@pytest.fixture
def clock(monkeypatch):
    """Ten seconds pass from look to look."""
    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr(failures, "time", type("T", (), {"monotonic": lambda: float(next(ticks))}))


def looks(*answers):
    watch, number = Vigil(FakeJava(*answers).garbage_seconds), len(answers)
    return [watch.look() for _ in range(number)]


def test_a_java_that_is_silent_twice_is_given_up():
    assert Vigil(FakeJava(None, 0.0).garbage_seconds).look() is None
    assert "does not answer (timed out)" in Vigil(FakeJava(None, None).garbage_seconds).look()


def test_a_java_that_only_collects_garbage_is_out_of_memory(clock):
    assert looks(0, 9.9, 19.8, 29.7, 39.6) == [None] * 4 + [OUT_OF_MEMORY]


def test_garbage_beside_work_is_no_trouble(clock):
    assert looks(0, 9.9, 19.8, 29.7, 34, 43.9, 53.8, 63.7) == [None] * 8
