"""Built-in jobs: archive a topic, replay a table, audit one against the other, compact small files."""
