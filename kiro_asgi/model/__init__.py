"""Nouns: what a request asks and what an answer is made of.  Values only; nothing here awaits or decides."""
