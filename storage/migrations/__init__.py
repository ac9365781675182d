"""The schema's history, run by `Database.prepare`."""
