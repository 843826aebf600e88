"""What awaits, towards upstreams."""
