"""Fuzzing: functions that take any bytes, shared by hypothesis in the suite and by atheris in ``python -m tests.fuzz``.

An input is a program for `tests.fuzz.source.Source`: its bytes choose a seed, what is done to it, and where it is cut.
One that begins with ``=`` is taken as it stands.  Each target of `tests.fuzz.targets` asserts that only typed errors
come, that what comes out obeys its grammar wherever the input was cut, and that the steps it took are at most a
constant and a small multiple of the input.
"""
