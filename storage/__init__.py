"""What is kept: facts in tables, the same on SQLite and PostgreSQL. Rows never leave this package."""
