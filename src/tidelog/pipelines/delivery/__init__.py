"""How a query delivers its batches: its trigger, its checkpoint, and a topic's rows exactly once.

`sink_state` pins the layout of an exactly-once sink in the checkpoint; `lane_writer` writes one lane of a batch in a
transaction, inside a Spark task. `lane_writer` and `partitioners` run in Spark's Python workers, so they import no
PySpark session and nothing that needs one. Imports only `spark` and `errors`.
"""
