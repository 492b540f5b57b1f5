"""What the suites that drive real processes share: the broker under test, external tools, topics, sample records."""
