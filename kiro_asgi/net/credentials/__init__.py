"""Credentials of an app: where they are stored, how they are refreshed, which one a request gets."""
