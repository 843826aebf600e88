"""From a neutral prompt to a service's body: what services have in common; each upstream has what is its own."""
