"""The channel to an engine of ours: the literal loopback address, no proxy, the engine's token.

Spark's own builder sends a token without TLS to `localhost` only, which may be an address where
another user listens.
"""

from __future__ import annotations

from typing import final

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from typing_extensions import override

from singer_spark.engine.lease import Lease

_OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


@final
class _Token:
    """Gives each request the engine's token, and none once the engine is gone.

    Somebody else may listen at its port by then, and would get the request as well.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def __call__(self, _context: object, callback: grpc.AuthMetadataPluginCallback) -> None:
        if reason := self._lease.ended:
            callback((), ConnectionError(reason))
        else:
            callback((("authorization", f"Bearer {self._lease.token}"),), None)


@final
class _LoopbackChannel(DefaultChannelBuilder):
    def __init__(self, lease: Lease) -> None:
        super().__init__(f"sc://127.0.0.1:{lease.port}", channelOptions=list(_OPTIONS))
        self._lease = lease
        self.set(self.PARAM_USER_ID, lease.user)

    @override
    def toChannel(self) -> grpc.Channel:
        credentials = grpc.composite_channel_credentials(
            grpc.local_channel_credentials(), grpc.metadata_call_credentials(_Token(self._lease))
        )
        return self._secure_channel(f"ipv4:127.0.0.1:{self._lease.port}", credentials)


def engine_channel(lease: Lease) -> DefaultChannelBuilder:
    """Describe the channel to the engine of a lease."""
    return _LoopbackChannel(lease)


def short_patience() -> DefaultPolicy:
    """Return how often a request to an engine of ours is repeated: it lives, or it is dead."""
    return DefaultPolicy(max_retries=4, initial_backoff=50, max_backoff=500, backoff_multiplier=2.0)
