"""The pip command that adds an extra to this installation, for messages about a missing package."""

from __future__ import annotations

import json
import shlex


def install_command(extra: str) -> str:
    """Return the command that adds an extra, also for an installation from a clone.

    pip records where a package came from in `direct_url.json` (PEP 610). An installation from an index has no such file.
    """
    from urllib.parse import unquote, urlparse  # noqa: PLC0415  only for an error message

    direct_url = _direct_url()
    address = urlparse(str(direct_url.get("url", "")))
    origin = unquote(address.path) if address.scheme == "file" else "minibroker"
    directory = direct_url.get("dir_info")
    editable = "-e " if isinstance(directory, dict) and directory.get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{origin}[{extra}]')}"


def _direct_url() -> dict[str, object]:
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  only for an error message

    try:
        text = distribution("minibroker").read_text("direct_url.json")
    except PackageNotFoundError:  # the sources were put on the path without pip
        return {}
    found: dict[str, object] = json.loads(text) if text else {}
    return found
