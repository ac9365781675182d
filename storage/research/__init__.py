"""What researchers replay, count and relabel."""
