"""From a decoded request to its response: the table of APIs, the dispatcher, forwarding, one handler per API.

May use every layer below, and holds no state of its own that outlives a connection. A handler checks, calls down and
builds the response.
"""
