"""init as its users meet it: a file that can be read, and no secret in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from singer_spark.cli.init import parse_source, write_text
from singer_spark.errors import SettingsError
from tests.support.shop import invoke, make_folder


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    return make_folder(tmp_path, monkeypatch)


class TestInit:
    def test_what_is_not_given_is_asked_for(self):
        answers = "shop\npostgresql://db.example.com/shop\nreader\nlake/shop\n\n*/15 * * * *\n"
        result = invoke("init", input=answers)

        assert result.exit_code == 0, result.output
        written = yaml.safe_load(Path("pipelines/shop.yml").read_text())
        assert written == {
            "name": "shop",
            "source": {
                "tap": "tap-spark-source",
                "config": {
                    "source_url": "jdbc:postgresql://db.example.com/shop",
                    "source_user": "reader",
                    "source_password": "${SHOP_PASSWORD}",
                    "default_replication_method": "INCREMENTAL",
                    "default_replication_key": "updated_at",
                },
            },
            "destination": {"target": "target-spark-delta", "config": {"path": "lake/shop"}},
            "schedule": {"cron": "*/15 * * * *"},
        }
        assert "export SHOP_PASSWORD=" in result.output
        assert "singer-spark check shop" in result.output

    def test_everything_may_be_given_and_no_password_is_written(self):
        url = "postgresql://reader:do-not-tell@db/shop"
        given = ["--source", url, "--destination", "x", "--key", "none", "--cron", "none"]
        result = invoke("init", "shop", *given)

        assert result.exit_code == 0, result.output
        assert "do-not-tell" not in Path("pipelines/shop.yml").read_text() + result.output
        again = invoke("init", "shop", *given)
        assert again.exit_code == 78
        assert "pipelines/shop.yml exists and is left alone" in again.output

    @pytest.mark.parametrize(
        ("url", "jdbc", "user"),
        [
            ("postgres://u:p@h:5433/d?ssl=true", "jdbc:postgresql://h:5433/d?ssl=true", "u"),
            ("mysql://u%40x@h/d", "jdbc:mysql://h/d", "u@x"),
            ("sqlserver://h/d", "jdbc:sqlserver://h;databaseName=d", None),
            ("jdbc:postgresql://h/d?user=u&password=p&ssl=1", "jdbc:postgresql://h/d?ssl=1", "u"),
            ("jdbc:derby:shop", "jdbc:derby:shop", None),
            ("csv:examples/shop", "csv:examples/shop", None),
        ],
    )
    def test_usual_urls_are_understood(self, url, jdbc, user):
        source = parse_source(url)
        assert (source.url, source.user) == (jdbc, user)

    @pytest.mark.parametrize("arguments", [["a/b"], ["x", "--source", "ftp://x"],
                                           ["x", "--source", "csv:y", "--destination", "z",
                                            "--key", "none", "--cron", "often"]])  # fmt: skip
    def test_bad_input_is_one_line(self, arguments):
        result = invoke("init", *arguments)
        assert (result.exit_code, result.output.count("\n")) == (78, 1)
        assert not Path("pipelines/x.yml").exists()

    def test_a_text_with_signs_stays_what_it_is(self):
        text = write_text("p", parse_source('csv:it\'s "here": #1'), "a: b")
        written = yaml.safe_load(text)
        assert written["source"]["config"]["source_url"] == 'csv:it\'s "here": #1'
        assert written["destination"]["config"]["path"] == "a: b"

    @pytest.mark.parametrize(
        ("url", "jdbc", "user"),
        [
            ("jdbc:sqlserver://h;user=sa;password=SECRET;databaseName=d",
             "jdbc:sqlserver://h;databaseName=d", "sa"),
            ("jdbc:sqlserver://h;user=sa;password={SEC;RET?};databaseName=d",
             "jdbc:sqlserver://h;databaseName=d", "sa"),
            ("jdbc:mysql://u:SECRET@h/db?useSSL=false", "jdbc:mysql://h/db?useSSL=false", "u"),
            ("jdbc:mysql://u:SEC/R@ET@h:3306/db", "jdbc:mysql://h:3306/db", "u"),
            ("postgresql://u@h/db?password=SECRET&ssl=1", "jdbc:postgresql://h/db?ssl=1", "u"),
            ("postgresql://u:SEC/R?E#T@h/db", "jdbc:postgresql://h/db", "u"),
            ("jdbc:postgresql://h:5432/d?user=u&password=SEC;RET",
             "jdbc:postgresql://h:5432/d", "u"),
            ("jdbc:oracle:thin:scott/SECRET@//h:1521/x", "jdbc:oracle:thin:@//h:1521/x", "scott"),
            ("jdbc:oracle:thin:scott/SEC@RET@h:1521:x", "jdbc:oracle:thin:@h:1521:x", "scott"),
            ("jdbc:oracle:thin:@//h:1521/x", "jdbc:oracle:thin:@//h:1521/x", None),
            ("jdbc:derby:shop;USER=a;PASSWORD=SECRET", "jdbc:derby:shop", "a"),
            ("jdbc:mysql://h:3306/d?mail=a@b", "jdbc:mysql://h:3306/d?mail=a@b", None),
        ],
    )  # fmt: skip
    def test_no_password_of_any_url_is_written_down(self, url, jdbc, user):
        source = parse_source(url)
        assert (source.url, source.user) == (jdbc, user)
        assert ("SEC" in url) == ("SEC" in (source.password or ""))
        assert "SEC" not in write_text("p", source, "lake")

    @pytest.mark.parametrize(
        "url",
        [
            "jdbc:postgresql://h/d?sslpassword=SECRET",
            "jdbc:snowflake://h/?accessToken=SECRET",
            "jdbc:mysql://(host=h,user=u,password=SECRET)/d",
            "jdbc:mysql://u:12/SECRET@h/db",
            "postgresql://h:SECRET/d",
        ],
    )
    def test_a_secret_that_cannot_be_taken_out_is_refused(self, url):
        with pytest.raises(SettingsError) as caught:
            parse_source(url)
        assert "SECRET" not in caught.value.message

    @pytest.mark.parametrize("name", ["123", "true", "1e3"])
    def test_any_name_is_written_as_a_text(self, name):
        given = ["--source", "csv:x", "--destination", "y", "--key", "none", "--cron", "none"]
        result = invoke("init", name, *given)
        assert result.exit_code == 0, result.output
        assert yaml.safe_load(Path(f"pipelines/{name}.yml").read_text())["name"] == name
