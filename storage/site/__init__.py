"""People, settings, the audit log and backups."""
