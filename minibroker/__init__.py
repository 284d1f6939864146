"""A Kafka broker in one Python process."""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import `secure` at its first use. It belongs to the test kit (minibroker/testing/secured.py), which a broker does not import."""
    if name != "secure":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  not at each start

    return import_module("minibroker.testing.secured").secure
