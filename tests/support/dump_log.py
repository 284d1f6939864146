"""Apache Kafka's DumpLogSegments over a log directory of ours: does it read everything without complaint?

It runs many times in one JVM, which a test process starts when it first needs it and keeps.
"""

from __future__ import annotations

import atexit
import re
import tempfile
import threading
from functools import cache
from pathlib import Path

from tests.support.kafka_tools import KafkaTools

#: The tool starts counting at -1 in each file, so it says this of every segment but the first, of Kafka's own too (4.3.1).
_NO_COMPLAINT = re.compile(r"Non-consecutive offsets in \S*/0*(\d+)\.log\n  -1 is followed by \1\n(?!  )")
_GAPS = re.compile(r"Non-consecutive offsets in \S*\n(?:  \d+ is followed by \d+\n|  -1 is followed by \d+\n)+")
_STARTING = threading.Lock()
_COMPLAINTS = (
    "isvalid: false",
    "mismatch",
    "Mismatch",
    "Non-consecutive",
    "Exception",
    "Error",
    "Found invalid",
    "is not a valid",
    "out of order",
)


@cache
def _tools() -> KafkaTools:
    tools = KafkaTools(Path(tempfile.gettempdir()))
    atexit.register(tools.kill)  # where that is left out, it ends with its standard input
    return tools


def dump(files: list[Path], *arguments: str, may_have_gaps: bool = False) -> str:
    """What DumpLogSegments prints of these files; fails the test when it fails or complains, of gaps too unless there may be some."""
    with _STARTING:
        tools = _tools()
    said = tools.run("DumpLogSegments", "--files", ",".join(str(file) for file in files), *arguments)
    output = "".join(f"{line}\n" for line in (*said.out, *said.err))
    assert said.exit_code == 0, f"DumpLogSegments {' '.join(arguments)} ended with {said.exit_code}:\n{output}"
    told = _GAPS.sub("", output) if may_have_gaps else output
    complaints = [line for line in _NO_COMPLAINT.sub("", told).splitlines() if any(word in line for word in _COMPLAINTS)]
    assert complaints == [], complaints[:20]
    return output


def batches_of(output: str) -> list[dict[str, str]]:
    """The lines about batches in a dump, as name -> value."""
    found = []
    for line in output.splitlines():
        if line.startswith("baseOffset: "):
            words = line.split()
            found.append({name.rstrip(":"): value for name, value in zip(words[::2], words[1::2], strict=False)})
    return found


def check_directory(data_dir: Path) -> dict[str, list[dict[str, str]]]:
    """Dump every log and index file of the topics in a stopped broker's directory; the batches by folder name.

    Batches must follow each other without a gap from the first one on, across segments.
    """
    folders = sorted(folder for folder in data_dir.iterdir() if folder.is_dir() and not folder.name.startswith("__"))
    logs = [log for folder in folders for log in sorted(folder.glob("*.log"))]
    indexes = [index for folder in folders for index in sorted(folder.glob("*.*index"))]
    by_folder: dict[str, list[dict[str, str]]] = {}
    for section in dump(logs, "--deep-iteration").split("Dumping ")[1:]:
        name = Path(section.splitlines()[0]).parent.name
        by_folder.setdefault(name, []).extend(batches_of(section))
    for name, batches in by_folder.items():
        expected = int(batches[0]["baseOffset"]) if batches else 0
        for batch in batches:
            assert (int(batch["baseOffset"]), batch["isvalid"]) == (expected, "true"), name
            expected = int(batch["lastOffset"]) + 1
    sane = dump(indexes, "--index-sanity-check")  # of .txnindex it shows the entries, but does not judge them
    judged = [index for index in indexes if index.suffix != ".txnindex"]
    assert sane.count("passed sanity check") + sane.count("index is empty.") == len(judged), sane
    dump(indexes)  # every entry against the log beside it
    return by_folder


def check_metadata_log(data_dir: Path) -> str:
    """The metadata log of a stopped broker, and its snapshots, through Kafka's decoder of its records."""
    folder = data_dir / "__cluster_metadata-0"
    return dump(sorted([*folder.glob("*.log"), *folder.glob("*.checkpoint")]), "--cluster-metadata-decoder")
