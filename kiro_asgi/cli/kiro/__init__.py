"""What the command can do for the Kiro service alone; that service's manifest names it."""
