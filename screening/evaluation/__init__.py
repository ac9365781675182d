"""Is what was labeled true? Numbers in, numbers out; only clinicians' reviews and reference labels count here."""
