"""Commands for the Kiro service alone; part of the room `kiro_asgi.cli`."""
