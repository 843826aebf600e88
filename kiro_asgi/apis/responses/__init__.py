"""The stateful part of the Responses API: responses are stored, and later requests build on them."""
