"""Stopping rules: pure state machines that see draws and say when the mode is identified. No IO."""
