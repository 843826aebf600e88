"""Asynchronous code towards clients: the ASGI application and how it is mounted."""
