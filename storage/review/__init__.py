"""The inbox and what clinicians do; blind-first review is enforced here."""
