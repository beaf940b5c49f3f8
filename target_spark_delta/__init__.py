"""Singer messages into Delta tables.

The folders are the stages of the data:

    intake       lines -> messages -> checked records -> segments on disk; no Spark
    commits      segments -> commits, in the background; which STATE is true
    rows         a segment, or a BATCH file -> typed columns
    table        one Delta table: made, changed, committed to, known again
    methods      which rows of a batch, and of the table, make the commit

`streams` has what a stream is: its SCHEMA, checked, and its destination. `target` takes the
messages, `sink` the records of one stream.
"""
