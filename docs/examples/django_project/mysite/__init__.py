"""A Django project with the gateway below ``/llm``, for its own users."""
