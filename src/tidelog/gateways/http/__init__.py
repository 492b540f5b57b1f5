"""The admin port: health, readiness, metrics and the state of the node, over HTTP."""
