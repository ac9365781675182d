"""The inbox and what clinicians do; blind-first reading is enforced here."""
