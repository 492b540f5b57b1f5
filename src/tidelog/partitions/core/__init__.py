"""What the replicas of one partition decide: high watermark, in-sync replicas, epochs, changes of role.

Pure: no input or output; time is an argument.
"""
