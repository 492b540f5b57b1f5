"""Runs pipelines: frames from the model, queries under supervision, progress, state files, metrics.

`runner` is the way in. May touch Spark, brokers and the checkpoint through the packages below it.
"""
