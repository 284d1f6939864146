"""One module for each kind of file in a Kafka log directory."""

import sys

if sys.platform == "win32":  # no fcntl, pread or sendfile, and open files cannot be replaced
    raise ImportError("minibroker does not run on Windows itself: use WSL 2 or a container")
