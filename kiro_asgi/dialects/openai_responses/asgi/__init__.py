"""The Responses API apart from its answers: responses are stored, and later requests build on them."""
