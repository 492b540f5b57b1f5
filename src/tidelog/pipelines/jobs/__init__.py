"""Built-in jobs: archive a topic, replay a table into a topic, audit one against the other, compact small files.

Each is a function over a Spark session with a request and a result of its own. May touch everything below it.
"""
