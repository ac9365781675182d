"""What must not change unnoticed: `python -m tests.golden` writes it anew, and a commit says why it is right."""
