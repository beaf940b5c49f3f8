"""Locks of other machines."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from singer_spark.state.holder import Holder
from singer_spark.storage.objects import Expect


def write_lock(store, **changes):
    """Put a lock of another machine there."""
    holder = replace(Holder.here("other-run"), host="elsewhere", machine="another", **changes)
    store.documents.write("p/lock", holder.to_dict(), Expect.ANYTHING)
    return holder


def ago(seconds):
    return (datetime.now(timezone.utc) - timedelta(seconds=seconds)).isoformat()
