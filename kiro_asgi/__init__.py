"""A streaming gateway as a raw ASGI application."""
