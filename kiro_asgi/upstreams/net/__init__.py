"""What upstreams look at in the world: AWS's variables, files and sign-ins."""
