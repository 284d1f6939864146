"""Where the `minibroker` command begins: a health check without options, its most frequent call, is done before click is imported."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run what the command line says, and end."""
    if sys.argv[-1] in {"health", "--health"}:
        from minibroker.cli.health_check import quick  # noqa: PLC0415  others do not pay for it

        code = quick(sys.argv[1:], os.environ)
        if code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # the interpreter's own end, which takes everything apart, would be a sixth of all this
    from minibroker.cli import main as commands  # noqa: PLC0415  as above

    commands.main()
