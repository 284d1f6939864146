"""Convert bytes of the protocol to values and back, without IO."""
