"""Rules, bounds, metrics, agreement and verification: numbers in, numbers out, no input or output."""
