"""The OpenAI Responses API: of it, so far, the shapes of server tools."""
