"""Pipeline files: what they may say, how they are read and judged. Nothing here needs Spark."""
