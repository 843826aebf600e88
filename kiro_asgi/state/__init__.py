"""State that outlives a request: a key-value protocol, and the engines that keep it."""
