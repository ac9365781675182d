"""Parts of the pages on which a site is run."""
