"""What the controller's listener serves: to other controllers, to brokers, to admin clients. `api/table.py` lists all.

A handler is ``handle(services, context, request)``, as in `broker.api`.
"""
