"""What awaits, towards clients: the ASGI application and how it is mounted."""
