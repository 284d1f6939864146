"""The entry point of the `minibroker` command: streams, Ctrl-C, exit codes.

A health check without options, the most frequent call, runs before click is imported.
"""

from __future__ import annotations

import os
import sys

from minibroker.cli.streams import finish, open_streams

INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    code: object
    try:
        open_streams()
        code = _run()
    except KeyboardInterrupt:  # also during an import
        code = INTERRUPTED
    except SystemExit as end:
        code = end.code
    sys.exit(finish(code))


def _run() -> int:
    if sys.argv[-1] in {"health", "--health"}:
        from minibroker.cli.health_check import quick  # noqa: PLC0415  others do not pay for it

        code = quick(sys.argv[1:], os.environ)
        if code is not None:
            code = finish(code)
            sys.stderr.flush()
            os._exit(code)  # the interpreter's own shutdown would take a sixth of the whole time
    from minibroker.cli import main as commands  # noqa: PLC0415  as above

    commands.main()
    return 0
