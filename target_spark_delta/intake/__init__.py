"""Singer messages into checked records, and these into segments on disk. No Spark runs here."""
