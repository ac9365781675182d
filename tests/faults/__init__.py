"""The fault catalogue: everything that was ever tried to make a fault end as ``safe``, run by one command."""
