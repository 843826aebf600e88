"""Connections to upstreams, credentials, retries: everything below the application that awaits the network."""
