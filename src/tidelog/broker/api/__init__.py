"""One file per API key: a handler validates, asks, answers; the logic lives in the subsystem. `table.py` lists all.

A handler is ``handle(broker, context, request)`` and gives the response, an awaitable of it, or None for no answer.
The request's `records` are views of the receive buffer: valid until the plain handler returns.
"""
