"""Two gateways, one state, and many clients that go to either: ``tox -e scale``."""
