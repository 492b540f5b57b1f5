"""Pipeline files: what they may say, how they are read and checked.

`read` makes a `model.Pipeline` from a file, `judge` finds what is wrong with its SQL and Python. May read the file and
what it names; starts no Spark session and asks no broker.
"""
