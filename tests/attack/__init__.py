"""An attack on a served gateway: ``python -m tests.attack``.

Everything that a client, or a service behind the gateway, can do to a process over the wire is done to a real
``kiro-asgi serve``, while a healthy client streams beside it, another asks anew, and a third polls ``/health``.  What
these three notice is the verdict.

Four kinds of processes: the gateway, the healthy clients (`tests.attack.healthy`), the services (a simulator for the
healthy, `tests.attack.hostile` for the others), and the attacker (`tests.attack.__main__`).
"""
