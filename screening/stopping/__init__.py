"""When to stop asking a node's model, what that promises about the label named, and what it costs."""
