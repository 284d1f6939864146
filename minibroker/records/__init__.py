"""Record batches as bytes: read, validate, convert and build them, without IO."""
