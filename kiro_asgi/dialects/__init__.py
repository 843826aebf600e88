"""The APIs that clients speak, one folder a party."""
