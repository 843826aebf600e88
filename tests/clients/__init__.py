"""The agents and SDKs that people point at the gateway, as npm has them; `tox -e clients` runs these tests."""
