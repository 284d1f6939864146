"""From a request frame to a handler and back."""
