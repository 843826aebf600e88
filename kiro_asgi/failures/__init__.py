"""What a service answers in place of an answer: what it says, what it means, and what mends it."""
