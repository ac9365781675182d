"""Reading files strictly: every row is accepted or rejected with a reason, and none moves."""
