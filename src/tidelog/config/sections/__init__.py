"""The broker's settings, one module per section of the configuration file; `config.broker` joins them."""
