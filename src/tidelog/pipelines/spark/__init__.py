"""The Spark session: its master, its JVM, the jars on its class path, and Spark's errors in one line.

`session.py` is the way in; the other files each do one thing for it. May touch processes, the network (Maven, the
master's port) and the environment. Imports nothing else of the pipelines but `errors`.
"""
