"""What the command can do for the Kiro service alone; of the room `kiro_asgi.cli`."""
