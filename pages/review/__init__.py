"""Parts of the inbox and the case page."""
