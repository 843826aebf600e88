"""The services behind us, one folder a party."""
