"""What a stream of each client API may look like, as checkers that share no code with the encoders.

A checker fails with an `AssertionError` that says what is wrong, and gives the answer as a client puts it together.
"""
