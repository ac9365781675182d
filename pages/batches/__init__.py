"""Parts of the pages on which texts come in and are screened."""
