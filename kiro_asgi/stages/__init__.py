"""Verbs: vendor-neutral stages between an upstream's decoder and a dialect's encoder, one file each."""
