"""A Django project whose admin site has the keys of the gateway below ``/llm``."""
