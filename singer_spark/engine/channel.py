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
class _LoopbackChannel(DefaultChannelBuilder):
    def __init__(self, lease: Lease) -> None:
        super().__init__(f"sc://127.0.0.1:{lease.port}", channelOptions=list(_OPTIONS))
        self._lease = lease
        self.set(self.PARAM_USER_ID, lease.user)

    @override
    def toChannel(self) -> grpc.Channel:
        credentials = grpc.composite_channel_credentials(
            grpc.local_channel_credentials(), grpc.access_token_call_credentials(self._lease.token)
        )
        return self._secure_channel(f"ipv4:127.0.0.1:{self._lease.port}", credentials)


def engine_channel(lease: Lease) -> DefaultChannelBuilder:
    """Describe the channel to the engine of a lease."""
    return _LoopbackChannel(lease)


def short_patience() -> DefaultPolicy:
    """Return how often a request to an engine of ours is repeated: it lives, or it is dead."""
    return DefaultPolicy(max_retries=4, initial_backoff=50, max_backoff=500, backoff_multiplier=2.0)
