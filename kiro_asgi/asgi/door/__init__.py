"""The door: how a call is let in, and the application that hosts know."""
