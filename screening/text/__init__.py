"""Text as received: what is kept, what the model is shown, and what speaks against a `safe`."""
