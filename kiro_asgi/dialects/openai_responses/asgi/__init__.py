"""What the Responses API does besides answering: it keeps responses, and goes back to them."""
