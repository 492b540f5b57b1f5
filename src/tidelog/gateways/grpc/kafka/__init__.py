"""`api.Kafka`: the log under a second set of names: errors are in the answers, and clients find leaders themselves."""
