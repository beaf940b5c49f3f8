"""What is particular to state in S3."""

from __future__ import annotations

import boto3
import pytest
from botocore.exceptions import ClientError

from singer_spark.errors import StateError
from singer_spark.state import PipelineState, create_state_store
from tests.support.stores import STATE


@pytest.mark.usefixtures("s3")
class TestS3:
    def test_the_top_of_a_bucket_is_a_place_too(self, s3):
        store = create_state_store(f"s3a://{s3}")
        store.save(STATE)

        assert store.list_pipelines() == ["shop-orders"]
        assert store.objects.place == f"s3://{s3}"
        assert boto3.client("s3").get_object(Bucket=s3, Key="shop-orders/state.json")

    def test_a_missing_bucket_is_error_74_without_secrets(self):
        with pytest.raises(StateError) as caught:
            create_state_store("s3://no-such-bucket/state").get("p")
        assert caught.value.exit_code == 74
        assert "s3://no-such-bucket/state" in caught.value.message
        assert "NoSuchBucket" in caught.value.message
        assert "do-not-tell" not in caught.value.message

    def test_a_server_out_of_reach_is_error_74(self, s3, monkeypatch):
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        with pytest.raises(StateError, match="EndpointConnectionError") as caught:
            create_state_store(f"s3://{s3}/state").get("p")
        assert caught.value.exit_code == 74

    def test_missing_credentials_are_error_74(self, s3, monkeypatch, tmp_path):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        with pytest.raises(StateError, match="NoCredentials"):
            create_state_store(f"s3://{s3}/state").get("p")

    def test_a_put_whose_answer_was_lost_is_no_lost_race(self, s3):
        store = create_state_store(f"s3://{s3}/state")
        client = store.objects._client
        put = client.put_object

        def put_twice(**arguments):
            put(**arguments)
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "PutObject")

        client.put_object = put_twice
        store.save(STATE)
        assert store.get("shop-orders") == STATE

    def test_any_aws_endpoint_variable_and_the_config_are_heard(self, s3, s3_endpoint, monkeypatch):
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
        config = {"type": "s3", "bucket": s3, "prefix": "p", "endpoint_url": s3_endpoint}
        create_state_store(config).save(STATE)

        monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
        assert create_state_store(f"s3://{s3}/p").get("shop-orders") == STATE

    def test_only_foreign_servers_are_asked_by_path(self, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://minio.example:9000")
        own = create_state_store("s3://lake/x").objects._client
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
        amazon = create_state_store("s3://lake/x").objects._client

        def url(client):
            return client.generate_presigned_url(
                "get_object", Params={"Bucket": "lake", "Key": "k"}
            )

        assert url(own).startswith("http://minio.example:9000/lake/k")
        assert url(amazon).startswith("https://lake.s3")

    def test_more_objects_than_one_page_are_listed(self, s3):
        store = create_state_store(f"s3://{s3}/many")
        pages = store.objects._client.get_paginator("list_objects_v2")
        store.objects._client.get_paginator = lambda _: _SmallPages(pages)
        for number in range(5):
            store.save(PipelineState(f"p{number}", {"x": 1}))

        assert store.list_pipelines() == [f"p{number}" for number in range(5)]


class _SmallPages:
    def __init__(self, pages):
        self.pages = pages

    def paginate(self, **arguments):
        return self.pages.paginate(**arguments, PaginationConfig={"PageSize": 2})
