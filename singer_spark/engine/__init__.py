"""The one Spark engine: find one that serves, or start it; open sessions on it.

session    what tap and target call: `open_session`, `isolated`
lease      the right to use an engine: find, start, give back
keeper     the process that owns the JVM and lends it
jvm        Spark's process: started, asked, ended
spec       what an engine is made of, and whether it serves
registry   the folder where engines are found
java       which Java, its command line, its archive of classes
jars       what Spark needs beside its own jars
connect    the channel to an engine; sessions on a server of someone else
machine    memory, cores and disk
failures   why Spark did not start or has ended
"""

from __future__ import annotations
