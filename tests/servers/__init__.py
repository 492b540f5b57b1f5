"""What suites and benchmarks share that drive real processes: brokers, Kafka's tools, a bare connection, topics."""
