"""The log as clients of Confluent's REST Proxy know it: its v2 calls here, administration as in its v3 below `v3`."""
