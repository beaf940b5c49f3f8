"""A STATE comes back as it was written, digit by digit, wherever it passes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from singer_spark import exact_json
from singer_spark.runner import StateFiles
from singer_spark.state import PipelineState
from tests.support import shop
from tests.support.shop import finish, invoke, make_folder, write
from tests.support.states import state

NUMBERS = (
    '"a":9007199254740995.1,"b":0.1000000000000000055511151231257827,"c":1E400,"d":-0,'
    '"e":12345678901234567890123456789,"f":1.0,"g":1e2'
)
BOOKMARK = f'{{"replication_key_value":9007199254740995.1,{NUMBERS}}}'
STATE = f'{{"bookmarks":{{"orders":{BOOKMARK}}}}}'
TAP = f"""
given = option("--state")
note(open(given).read() if given else "none")
say(type="SCHEMA", stream="orders", schema={{}}, key_properties=[])
print('{{"type": "STATE", "value": ' + {STATE!r} + '}}')
"""
TARGET = """
for line in sys.stdin:
    if '"STATE"' in line: print(line.split('"value": ')[1].strip()[:-1])
"""


def squeezed(text):
    return "".join(text.split())


class TestCommand:
    @pytest.fixture(autouse=True)
    def work(self, tmp_path, monkeypatch):
        make_folder(tmp_path, monkeypatch)
        write("tap-fake", TAP)
        write("target-fake", TARGET)

    def test_runner_store_and_back_to_the_tap(self):
        for _ in range(2):
            code, out, err = finish("run", "orders", "--json")
            assert code == 0, err
            assert STATE in squeezed(out)
        assert squeezed(Path("tap-fake.pids").read_text()) == STATE
        assert squeezed(Path("lake/.singer-spark/state/orders/state.json").read_text()) == STATE
        assert squeezed(finish("state", "get", "orders")[1]) == STATE
        runs = finish("runs", "orders", "--json")[1]
        assert f'"bookmarks_after":{{"orders":{BOOKMARK}}}' in squeezed(runs)

    def test_a_failed_run_and_the_one_that_resumes_it(self):
        write("target-fake", TARGET + "sys.exit(3)\n")
        assert finish("run", "orders")[0] == 3
        write("target-fake", TARGET)
        assert finish("run", "orders", "--resume")[0] == 0
        assert squeezed(Path("tap-fake.pids").read_text()) == STATE

    def test_several_pipelines_at_once(self):
        shop.write_pipeline("others")
        code, out, err = finish("run", "or*", "ot*", "--json")
        assert code == 0, err
        assert squeezed(out).count(f'"state":{STATE}') == 2

    def test_files_instead_of_a_store(self):
        Path("in.json").write_text(STATE)
        options = ["--state-in", "in.json", "--state-out", "out.json"]
        assert finish("run", "orders", *options)[0] == 0
        assert squeezed(Path("tap-fake.pids").read_text()) == STATE
        assert squeezed(Path("out.json").read_text()) == STATE


class TestByHand:
    @pytest.fixture(autouse=True)
    def work(self, tmp_path, monkeypatch):
        make_folder(tmp_path, monkeypatch)
        Path("state.json").write_text(STATE)
        assert state("set", "orders", "state.json").exit_code == 0

    def get(self):
        return squeezed(state("get", "orders").output)

    def test_set_and_get(self):
        assert self.get() == STATE

    def test_one_digit_is_a_difference(self):
        other = STATE.replace("9007199254740995.1", "9007199254740995.2")
        assert "state stored" in state("set", "orders", "-", input=other).output
        assert self.get() == other
        lines = state("diff", "orders", "state.json").output.splitlines()
        assert '-      "replication_key_value": 9007199254740995.2' in lines
        assert '+      "replication_key_value": 9007199254740995.1' in lines
        assert "state unchanged" in state("set", "orders", "-", input=other).output

    def test_a_bookmark_that_is_moved_leaves_the_others(self):
        value = "9007199254740997.3"
        result = state("set", "orders", "--stream", "orders", value)
        assert result.exit_code == 0, result.output
        assert self.get() == STATE.replace(":9007199254740995.1", f":{value}", 1)

    def test_an_editor_sees_and_changes_digits(self, monkeypatch):
        script = Path("editor.py").absolute()
        script.write_text(
            "import sys\npath = sys.argv[1]\ntext = open(path).read()\n"
            "assert '9007199254740995.1' in text\n"
            "open(path, 'w').write(text.replace('1E400', '1E401') + '    ')"
        )
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f"{shlex.quote(sys.executable)} {script}")
        assert "state stored" in state("edit", "orders").output
        assert self.get() == STATE.replace("1E400", "1E401")

    def test_list_as_json(self):
        assert STATE in squeezed(invoke("state", "list", "--json").output)


def test_every_store_keeps_digits(store):
    store.save(PipelineState("p", exact_json.loads(STATE)))
    store.save_checkpoint("p", exact_json.loads(STATE))

    assert squeezed(exact_json.dumps(store.get("p").watermark)) == STATE
    assert squeezed(exact_json.dumps(store.read_checkpoint("p").state)) == STATE


def test_runs_that_move_a_digit_have_moved(bench):
    from singer_spark.runner.run import is_left

    one, other = (
        exact_json.loads(f'{{"o": {n}}}') for n in ("9007199254740995.1", "9007199254740995.2")
    )
    assert one == other
    record = {"bookmarks_before": one, "bookmarks_after": other, "streams": {}}
    assert is_left(record, None)
    assert not is_left(record | {"bookmarks_before": other}, None)


def test_meltano_reads_the_same_number(tmp_path):
    from singer_spark.state import create_state_store

    store = create_state_store(f"meltano+file://{tmp_path}")
    store.save(PipelineState("p", exact_json.loads(STATE)))
    text = (tmp_path / "p/state.json").read_text()
    assert STATE in squeezed(text)
    (tmp_path / "p/state.json").write_text(
        text.replace('"partial": {}', f'"partial": {{"singer_state": {STATE}}}')
    )
    assert squeezed(exact_json.dumps(store.get("p").watermark)) == STATE


def test_files_of_a_bench(bench):
    bench.write("tap-fake", f'print(\'{{"type": "STATE", "value": \' + {STATE!r} + \'}}\')')
    bench.write("target-fake", TARGET)
    result = bench.run(files=StateFiles(None, bench.folder / "out.json"))
    assert squeezed((bench.folder / "out.json").read_text()) == STATE
    assert json.loads(exact_json.dumps(result.state))
