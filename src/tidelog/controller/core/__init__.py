"""What the controller decides: functions from an image and a request to records and a reply.

Pure: no input or output; time is an argument. May use `metadata`, `config`, `protocol` and `model`.
"""
