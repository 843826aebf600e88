"""Many clients at once, of one gateway or of two with one state: ``tox -e scale``."""
