"""Who a client is and what it may do: authentication, TLS, and access control lists."""

from __future__ import annotations

from minibroker.errors import ConfigurationError
from minibroker.extras import install_command


def needs_extra(what: str) -> ConfigurationError:
    """Return the error for a feature whose packages are not installed."""
    return ConfigurationError(f"{what} needs the package cryptography: {install_command('security')}")
