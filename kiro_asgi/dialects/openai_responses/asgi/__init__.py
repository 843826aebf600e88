"""The Responses API besides its answers: responses are stored, and later requests build on them."""
