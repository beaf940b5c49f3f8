"""Ids name files of a state store, so that they are looked at where they enter."""

from __future__ import annotations

import pytest

from singer_spark.errors import StateError
from singer_spark.state import create_state_store
from singer_spark.state.holder import Holder, is_run_id, new_run_id
from singer_spark.state.runs import list_runs, save_run
from singer_spark.storage.objects import Expect

HOSTILE = ["../../x", "a/b", "", ".", "..", ".hidden", "a\0b", "a\nb", "x" * 200, 7, None]


@pytest.mark.parametrize("run_id", HOSTILE, ids=repr)
def test_no_other_text_is_an_id(run_id):
    assert not is_run_id(run_id)
    values = {**Holder.here(new_run_id()).to_dict(), "run_id": run_id}
    with pytest.raises(ValueError, match="not"):
        Holder.from_dict(values)


def test_a_record_is_written_in_its_place_alone(tmp_path):
    store = create_state_store(str(tmp_path / "store"))
    with pytest.raises(StateError):
        save_run(store, "p", {"run_id": "../../../x"})
    assert not list(tmp_path.rglob("x.json"))


def test_a_summary_shows_no_file_elsewhere(tmp_path):
    store = create_state_store(str(tmp_path / "store"))
    (tmp_path / "store" / "p").mkdir(parents=True)
    (tmp_path / "store" / "secret.json").write_text('{"run_id": "s", "password": "x"}')
    store.documents.write_own(
        "p/summary.json", {"runs": [{"run_id": "../../secret"}]}, Expect.ABSENT
    )
    assert list_runs(store, "p") == []
