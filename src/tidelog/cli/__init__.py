"""The command line: one module per command, imported only when it is called.

Talks to brokers over the wire as any client does; only `serve`, `cluster start` and `demo` start nodes. May use
everything.
"""
