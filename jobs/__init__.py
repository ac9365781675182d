"""Screening what is pending: one job, one port, two runners. The tables are the truth; a runner keeps no state."""
