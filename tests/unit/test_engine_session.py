"""The import of Spark's client leaves pandas alone, for which others may still ask."""

from __future__ import annotations

import subprocess
import sys

BEGIN = """
import sys
from singer_spark.engine.session import import_client
import_client()
from pyspark.sql.connect import session
assert "pandas" not in sys.modules
"""


def outcome(code: str) -> str:
    command = [sys.executable, "-c", "import sys; sys.ps1 = ''\n" + BEGIN + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_no_data_frame_of_pandas_is_known_without_it():
    asked = "print(isinstance([], session.pd.DataFrame), 'pandas' in sys.modules)"
    assert outcome(asked) == "False False\n"


def test_who_asks_for_pandas_gets_it():
    made = "import pandas; print(isinstance(pandas.DataFrame(), session.pd.DataFrame))"
    assert outcome(made) == "True\n"
    typed = "import numpy; print(session.is_datetime64_dtype(numpy.dtype('datetime64[ns]')))"
    assert outcome(typed) == "True\n"


def test_pandas_that_is_there_already_stays():
    code = "import sys, pandas; before = pandas\nfrom singer_spark.engine.session import *\n"
    code += "import_client(); import pandas; print(pandas is before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
