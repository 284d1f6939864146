"""Bytes to values and back, sans-IO."""
