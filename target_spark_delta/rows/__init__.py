"""A segment or a BATCH file as typed columns."""
