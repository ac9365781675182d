"""What clinicians record, who may do what, and how urgent a case is: everything of it that holds no SQL."""
