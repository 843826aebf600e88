"""Sites with the gateway below ``/llm``, as each framework's own documentation would have it; each is `application`."""
