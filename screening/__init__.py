"""Screening of text for self-harm risk: rules, pipeline, samplers and what may be claimed of them."""
