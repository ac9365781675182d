"""What PostgreSQL tells whoever listens: triggers of the tables, made by the migrations."""

NEW_WORK = "second_look_work"
"""A case became ready, or something was done to a batch that may let its cases go on."""
