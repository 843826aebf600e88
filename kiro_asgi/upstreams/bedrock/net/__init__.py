"""What of Bedrock looks at the world: AWS's variables, files and sign-ins."""
