"""`tidelog.v1.Log`: batches, streams with an answer for every message, transactions and administration."""
