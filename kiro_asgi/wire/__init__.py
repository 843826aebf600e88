"""Encodings: bytes to structure and back.  Knows no vendor."""
