"""The Responses API, as OpenAI speaks it for all of its models, and for some of them alone."""
