"""Classic groups and committed offsets as pure state: no socket, file, clock or chance; time is an argument."""
