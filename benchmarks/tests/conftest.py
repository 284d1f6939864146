"""The benchmarks are scripts beside the package: their folder is put on the path, as Python does for a script."""

from __future__ import annotations

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))
