"""What awaits for one client API: its operations at the paths of its manifest, above the parts of the application."""
