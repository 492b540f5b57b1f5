"""Runs pipelines: frames from the spec, queries under supervision, progress, state files, metrics."""
