"""What PySpark's worker processes pay before and after each task, half a second of CPU where jars are many; and what spares most of it.

* Before each task the worker empties the caches of imports. Up to Python 3.11 that lists every archive on its path anew (those of PySpark,
  Spark's core and, unless the session prevents it, all jars of `spark.jars.packages`: tens of thousands of files), by Python code.
  Later versions list an archive when something is looked for in it. Without finders it is so here, too.
* After each task it runs the garbage collector over everything, and numba alone is half a million objects that never go.
"""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter

_settled_modules = 0


def settle() -> None:
    """Spare this process both, when modules were imported since the last call."""
    global _settled_modules  # noqa: PLW0603  it is the process that settles
    if len(sys.modules) != _settled_modules:
        _settled_modules = len(sys.modules)
        gc.freeze()
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
