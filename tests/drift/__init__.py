"""What the newest SDKs of the vendors have, and what becomes of it here: ``tox -e drift``."""
