"""Parts of the research pages."""
