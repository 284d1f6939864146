"""Archive topics to tables, exactly once. See docs/archive.md.

    batch      archive(): what topics hold now        streaming      follow(): what clients write from now on
    reading    read_archive(), read_manifest()        runs, delta    one run, in Parquet and in Delta Lake
    planning   which offsets a run archives           staging        records -> files, by Spark, and a check of them
    store      the folder and its commits             manifest       the commits' contents
    files      local file systems, and those that Hadoop supports

The invariants are in store.py.
"""

from __future__ import annotations

from minibroker.spark.archive.batch import ArchiveResult, archive
from minibroker.spark.archive.manifest import Manifest, Run
from minibroker.spark.archive.reading import read_archive, read_manifest
from minibroker.spark.archive.streaming import AVAILABLE_NOW, ArchiveStream, follow

__all__ = ["AVAILABLE_NOW", "ArchiveResult", "ArchiveStream", "Manifest", "Run", "archive", "follow", "read_archive", "read_manifest"]
