"""What single parts cost: ways of reading, streams of unusual shape, a MERGE in a large table."""
