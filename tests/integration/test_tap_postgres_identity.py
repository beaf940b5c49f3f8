"""PostgreSQL tells its own id, which decides whether a state fits, and users who may not ask."""

from __future__ import annotations

import pytest

from singer_spark.report import REPORT_FILE, read_report
from tests.support.tap import run_tap


@pytest.fixture
def shop(server):
    database = server.fresh("identity")
    database.run("create table t (id int primary key); insert into t values (1)")
    return database


def test_the_servers_own_id_is_reported_and_left_out_where_it_may_not_be_asked(
    shop, tmp_path, monkeypatch
):
    monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))

    def reported(**login) -> dict:
        run_tap({**shop.reads("t"), **login})
        facts = [fact for _, fact in read_report(tmp_path / "report") if fact["kind"] == "source"]
        return facts[-1]

    ((number,),) = shop.rows("select system_identifier from pg_control_system()")
    place = f"jdbc:postgresql://127.0.0.1:{shop.port}/identity"
    known = {"kind": "source", "stream": "", "place": place}
    assert reported() == {**known, "id": f"postgresql:{number}/identity"}
    shop.run(
        "revoke execute on function pg_control_system() from public; "
        "create role reader login password 'r'; grant select on t to reader"
    )
    login = {"source_user": "reader", "source_password": "r"}
    assert reported(**login) == {**known, "id": None}
