"""A page that shows what the gateway is doing: it reads, and changes nothing.

Imported where ``inspector.enabled`` is set, and nowhere else: `kiro_asgi.create` has `site.Inspector` in front of
its own paths, and `calls.RecentCalls` among its observers.
"""
