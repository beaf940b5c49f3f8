"""Singer messages into Delta tables.

The order of the modules is the order of the data:

    settings     what the user chose, parsed once
    messages     bytes -> envelopes, the records inside left as they are
    validation   does a record fit its schema?
    spool        records -> segment files on disk; no Spark
    checkpoint   which STATE has become true
    values       SQL that turns a record's text into typed values, or refuses
    frame        segment -> DataFrame, one row per key
    evolve       two schemas -> the changes between them
    table        locate, create and alter one Delta table
    merge        the only module that commits rows
    loader       segments are merged in the background, in order per stream
    sink         one stream: its schema, its open segment
    target       the Singer target
"""
