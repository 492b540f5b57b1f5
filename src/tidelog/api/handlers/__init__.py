"""One module per API, named as in `api.table`: checks a request, calls down, builds the response.

A handler decides nothing that must survive a restart: coordinators and the controller do.
"""
