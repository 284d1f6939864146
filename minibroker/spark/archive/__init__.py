"""Topics to tables, exactly once. docs/archive.md shows how.

    batch      archive(): what there is now           streaming   follow(): what comes
    reading    read_archive(), read_manifest()        runs        one run in Parquet          delta    one run in Delta Lake
    planning   what a run has to archive              staging     records -> files, by Spark, and what is in them
    store      the folder, and the commit             manifest    what is in its files
    files      the seam to the file system            hadoop_files   any that Hadoop knows

Invariants: store.py's. Nothing here imports PySpark before it has a session.
"""

from __future__ import annotations

from minibroker.spark.archive.batch import ArchiveResult, archive
from minibroker.spark.archive.manifest import Manifest, Run
from minibroker.spark.archive.reading import read_archive, read_manifest
from minibroker.spark.archive.streaming import AVAILABLE_NOW, ArchiveStream, follow

__all__ = ["AVAILABLE_NOW", "ArchiveResult", "ArchiveStream", "Manifest", "Run", "archive", "follow", "read_archive", "read_manifest"]
