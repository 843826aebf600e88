"""What the gateway does at the paths of the Gemini API."""
