"""What looks like a secret is masked, whatever it is called and however it is quoted."""

from __future__ import annotations

import pytest

from singer_spark.secrets import mask


@pytest.mark.parametrize(
    "name",
    [
        "fs.azure.account.key.lake.dfs.core.windows.net",
        "private.key",
        "kafka.sasl.jaas.config",
        "ssl.keystore.password",
        "api-key",
        "sig",
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
    ],
)
def test_secrets_inside_texts(text):
    hidden = mask(text)
    assert "s3cr3t" not in hidden
    assert "***" in hidden


def test_other_words_stay():
    text = "key property id is null; the primary key = id of orders, token count 3"
    assert "key property id is null" in mask(text)
