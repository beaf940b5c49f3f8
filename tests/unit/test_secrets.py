"""What looks like a secret is masked, whatever it is called and however it is quoted."""

from __future__ import annotations

import time

import pytest

from singer_spark.errors import SourceError
from singer_spark.runner.process import print_error
from singer_spark.secrets import keep_secret, mask


@pytest.mark.parametrize(
    "name",
    [
        "fs.azure.account.key.lake.dfs.core.windows.net",
        "private.key",
        "kafka.sasl.jaas.config",
        "ssl.keystore.password",
        "api-key",
        "sig",
        "fs.azure.sas.container.account",
        "shared_key",
        "passcode",
    ],
)
def test_values_of_settings_by_their_names(name):
    assert "s3cr3t" not in mask("it said: s3cr3t!", {"spark_conf": {name: "s3cr3t"}})


@pytest.mark.parametrize(
    "text",
    [
        "https://host/x?sv=1&sig=s3cr3t%3D&se=2",
        "Authorization: Bearer s3cr3tTOKEN",
        'PlainLoginModule required username="me" password="s3cr3t word";',
        "jdbc:sqlserver://h;password={s3cr3t;x};y=1",
        "connect: password='s3cr3t' refused",
        "account.key=s3cr3t",
        "jdbc:postgresql://h/db?user=me&password=s3cr3t",
        "https://s3cr3t@git.example/x",
        "redis://:s3cr3t@host:1",
        "fs.azure.account.key.lake.dfs.core.windows.net: s3cr3t",
        '{"password": "s3cr3t"}',
        "{'token': 's3cr3t'}",
        "password: s3cr3t",
        "identified by 's3cr3t'",
        "X-Amz-Credential=s3cr3t",
        "x-api-key: s3cr3t",
        "-----BEGIN RSA PRIVATE KEY-----\ns3cr3t\n-----END RSA PRIVATE KEY-----",
        "NOTE: Picked up JDK_JAVA_OPTIONS: -Djavax.net.ssl.trustStorePassword=s3cr3t",
    ],
)
def test_secrets_inside_texts(text):
    hidden = mask(text)
    assert "s3cr3t" not in hidden
    assert "***" in hidden


def test_other_words_stay():
    text = "key property id is null; the primary key = id of orders, token count 3"
    assert "key property id is null" in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        'password authentication failed for user "me"',
        "a token is sent by https only",
        "replication key: updated_at",
        "stream s, line 3: kind breaks the rule enum (key id); fix the data",
    ],
)
def test_sentences_stay(text):
    assert mask(text) == text


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:s3cr3t@db/x", "postgresql://me:s3cr%33t@db/x", "jdbc:x://h/db?pwd=s3cr3t"],
)
def test_a_secret_inside_of_a_url_is_known_without_it(url):
    assert mask("refused: s3cr3t", {"place": url}) == "refused: ***"


def test_what_is_kept_secret_is_in_no_error_and_no_log(capsys):
    keep_secret({"source_password": "s3cr3t of a plugin"})
    SourceError("it said s3cr3t of a plugin").show()
    print_error("log: s3cr3t of a plugin")
    assert "s3cr3t" not in capsys.readouterr().err


def test_masking_takes_no_time_that_grows_faster_than_the_text():
    for part in ("://a:", "a-", 'password="', "https://a", "-----BEGIN PRIVATE KEY-----"):
        started = time.monotonic()
        mask(part * (2**16 // len(part)))
        assert time.monotonic() - started < 10


def test_values_that_are_words_hide_no_part_of_another(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("AUTH_TOKEN", "true")
    monkeypatch.setenv("MAX_TOKENS", "4096")
    said = "jdbc:postgresql://db/x is true or false, 4096 rows; "
    assert mask(f"{said}postgres!", {"password": "postgres"}) == f"{said}***!"
