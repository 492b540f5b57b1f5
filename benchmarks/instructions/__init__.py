"""How many processor instructions a broker takes for one request."""
