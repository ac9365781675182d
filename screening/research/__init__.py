"""Conditions, recorded draws and their replay, and the data sets of the paper."""
