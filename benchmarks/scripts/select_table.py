"""Selects one table of a catalog: `tap --discover | select_table.py NAME > catalog.json`."""

from __future__ import annotations

import json
import sys

catalog = json.load(sys.stdin)
streams = [one for one in catalog["streams"] if one["table_name"] == sys.argv[1]]
for item in streams[0]["metadata"]:
    item["metadata"]["selected"] = True
json.dump({"streams": streams}, sys.stdout)
