"""Ids name files of a state store, so that they are looked at where they enter."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.errors import StateError
from singer_spark.state import create_state_store
from singer_spark.state.holder import Holder, is_run_id, new_run_id
from singer_spark.state.runs import list_runs, look_at, save_run
from singer_spark.storage.objects import Expect

HOSTILE = ["../../x", "a/b", "", ".", "..", ".hidden", "a\0b", "a\nb", "x" * 200, 7, None]


@pytest.mark.parametrize("run_id", HOSTILE, ids=repr)
def test_no_other_text_is_an_id(run_id):
    assert not is_run_id(run_id)
    values = {**Holder.here(new_run_id()).to_dict(), "run_id": run_id}
    with pytest.raises(ValueError, match=r"not|Expected"):
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


@pytest.mark.parametrize("kind", ["folder", "sqlite", "meltano"])
@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ".hidden", "a\0b", "a\nb", "-x"])
def test_a_name_that_is_none_reaches_no_store(tmp_path, kind, name):
    url = {
        "folder": str(tmp_path / "store"),
        "sqlite": f"sqlite:///{tmp_path}/state.db",
        "meltano": f"meltano+file://{tmp_path}/store",
    }[kind]
    (tmp_path / "x").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for arguments in (
        ["state", "get", name],
        ["state", "set", name, str(tmp_path / "given.json")],
        ["state", "delete", name, "--yes"],
        ["runs", name],
        ["unlock", name, "--yes"],
    ):
        (tmp_path / "given.json").write_text('{"bookmarks": {}}')
        done = CliRunner().invoke(main, [*arguments, "--state", url])
        assert done.exit_code != 0, arguments
        assert "Traceback" not in done.output
    made = {*tmp_path.rglob("*")} - {*before, tmp_path / "given.json"}
    assert all(path.is_relative_to(tmp_path / "store") or "state.db" in path.name for path in made)


def test_a_link_in_a_folder_leads_nowhere(tmp_path):
    store = create_state_store(str(tmp_path / "store"))
    (tmp_path / "home").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "home" / "summary.json").write_text('{"password": "x"}')
    (tmp_path / "store" / "p").symlink_to(tmp_path / "home")
    with pytest.raises(StateError, match="leads out of the state store"):
        save_run(store, "p", {"run_id": new_run_id()})
    with pytest.raises(StateError, match="leads out of the state store"):
        store.objects.delete("p/summary.json")
    (tmp_path / "store" / "q").mkdir()
    (tmp_path / "store" / "q" / "summary.json").symlink_to(tmp_path / "home" / "summary.json")
    with pytest.raises(StateError, match="leads out of the state store"):
        look_at(store, "q")
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["summary.json"]


def test_files_among_the_runs_that_name_no_run_are_none(tmp_path):
    store = create_state_store(str(tmp_path / "store"))
    save_run(store, "p", {"run_id": new_run_id()})
    (tmp_path / "store" / "p" / "runs" / "not a run.json").write_text('{"run_id": "x"}')
    (tmp_path / "store" / "p" / "summary.json").unlink()
    assert len(list_runs(store, "p")) == 1
