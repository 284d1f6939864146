"""`python -m minibroker`: the same as the `minibroker` command."""

from __future__ import annotations

from minibroker.cli.entry import main

if __name__ == "__main__":
    main()
