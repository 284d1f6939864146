"""kafka-dump-log: DumpLogSegments."""

from __future__ import annotations

from collections.abc import Sequence

from minibroker.cli.dump_log import dump_log


def run(arguments: Sequence[str]) -> int:
    """Done by `minibroker dump-log`, which takes DumpLogSegments' options."""
    dump_log.main(list(arguments), prog_name="kafka-dump-log", standalone_mode=False)
    return 0
