"""The record batch as bytes, sans-IO."""
