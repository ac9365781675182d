"""What must not change unnoticed, written out: `python -m tests.golden` writes the files of this folder anew.

A change of one is a line to review: the commit that brings it says why it is right.
"""
