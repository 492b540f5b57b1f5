"""Administration of topics, settings and groups in the shape of the REST Proxy's v3."""
