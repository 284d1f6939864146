"""Verify a partition's folder without changing it: first `plan`, then `check_segment` for each segment in any order, then `join`.

segment_checking.py checks each segment. This module checks that the segments follow each other, that leader-epoch-checkpoint has the same
epochs as the batches, and that the log reaches as far as the checkpoints of its directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minibroker.errors import CorruptLogError
from minibroker.log.findings import ERROR, WARNING, Finding, Findings
from minibroker.log.segment_checking import RecordCheck, SegmentReport, SegmentTask
from minibroker.storage.checkpoint_file import (
    CLEANER_OFFSET,
    LEADER_EPOCHS,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    REPLICATION_OFFSET,
    LeaderEpochCheckpoint,
)
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import LOG, SNAPSHOT, SWAP, file_name, parse_file_name


class Expected(NamedTuple):
    """The values for one partition in the files of a log directory; None for a value that they do not have."""

    directory: str  #: the partition's folder
    was_clean: bool = False  #: the last broker on it had a clean shutdown
    is_compacted: bool = True  #: offsets may be missing; also when that is not known
    needs_indexes: bool = True
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    cleaner_offset: int | None = None
    deep: bool = False  #: decode every record
    record_check: RecordCheck | None = None


def plan(files: Files, expected: Expected, findings: Findings) -> list[SegmentTask]:
    """Return the segments of a folder, and report what its names show. Raises OSError if it cannot be listed."""
    directory = expected.directory
    names = set(files.names(directory))
    parsed = [found for name in names if (found := parse_file_name(name)) is not None]
    base_offsets = sorted(offset for offset, suffix in parsed if suffix == LOG)
    snapshots = sorted(offset for offset, suffix in parsed if suffix == SNAPSHOT)
    for offset, suffix in sorted(parsed):
        if suffix not in {LOG, SNAPSHOT} and offset not in base_offsets:
            findings.add(WARNING, f"{directory}/{file_name(offset, suffix)}", "an index without its segment; the next start removes it")
    for name in sorted(names):
        if name.endswith(LOG + SWAP):
            findings.add(WARNING, f"{directory}/{name}", "an interrupted compaction; the next start finishes it")
    if not base_offsets and expected.recovery_point:
        findings.add(ERROR, directory, f"holds no segment, but everything up to offset {expected.recovery_point} was on disk")
    tasks = []
    begin = -1
    for base_offset, following in zip(base_offsets, [*base_offsets, None][1:], strict=True):
        end = 1 << 63 if following is None else following
        tasks.append(
            SegmentTask(
                directory,
                base_offset,
                following,
                is_recovered=not expected.was_clean and (following is None or following > (expected.recovery_point or 0)),
                needs_indexes=expected.needs_indexes,
                snapshots=tuple(offset for offset in snapshots if begin < offset <= end),
                is_first=base_offset == 0,
                deep=expected.deep,
                record_check=expected.record_check,
            )
        )
        begin = end
    return tasks


def join(files: Files, expected: Expected, reports: Sequence[SegmentReport], findings: Findings) -> None:
    """Check the reports of all segments against each other; they are in the order of their offsets."""
    if not reports:
        return
    _check_sequence(expected, reports, findings)
    end_offset = reports[-1].next_offset
    _check_offsets(expected, end_offset, findings)
    _check_epochs(files, expected, reports, findings)
    for name in files.names(expected.directory):
        found = parse_file_name(name)
        if found is not None and found[1] == SNAPSHOT and found[0] > end_offset and reports[-1].is_whole:
            severity = ERROR if expected.was_clean else WARNING
            findings.add(severity, f"{expected.directory}/{name}", f"is after the end of the log, offset {end_offset}")


def _check_sequence(expected: Expected, reports: Sequence[SegmentReport], findings: Findings) -> None:
    """Check that there is no gap in the offsets, unless compaction may have made it."""
    if expected.is_compacted:
        return
    for report, following in zip(reports, [*reports, None][1:], strict=True):
        path = f"{expected.directory}/{file_name(report.base_offset, LOG)}"
        if report.first_gap is not None:
            expected_sequence, found_sequence, position = report.first_gap
            findings.add(
                WARNING,
                path,
                f"offset {found_sequence} follows where {expected_sequence} is expected, although the topic is not compacted",
                position,
            )
        if following is not None and report.is_whole and not report.has_gaps and report.next_offset < following.base_offset:
            words = f"ends at offset {report.next_offset}, but the next segment starts at {following.base_offset}: its end was lost"
            is_deleted = following.base_offset <= (expected.log_start_offset or 0)
            findings.add(WARNING if is_deleted else ERROR, path, words, report.size)


def _check_offsets(expected: Expected, end_offset: int, findings: Findings) -> None:
    root = expected.directory.rpartition("/")[0]
    name = expected.directory.rpartition("/")[2]
    known = [
        (RECOVERY_POINT, expected.recovery_point, ERROR, "was on disk"),
        (LOG_START_OFFSET, expected.log_start_offset, ERROR, "was deleted"),
        (REPLICATION_OFFSET, expected.high_watermark, ERROR if expected.was_clean else WARNING, "could be read"),
        (CLEANER_OFFSET, expected.cleaner_offset, ERROR if expected.was_clean else WARNING, "was compacted"),
    ]
    for file, offset, severity, state in known:
        if offset is not None and offset > end_offset:
            findings.add(severity, f"{root}/{file}", f"{name}: everything up to offset {offset} {state}, but the log ends at {end_offset}")
    recovery_point = expected.recovery_point
    if expected.was_clean and recovery_point and recovery_point < end_offset:
        words = f"{name}: when the broker stopped, the log ended at offset {recovery_point}, now it ends at {end_offset}"
        findings.add(WARNING, f"{root}/{RECOVERY_POINT}", words)


def _check_epochs(files: Files, expected: Expected, reports: Sequence[SegmentReport], findings: Findings) -> None:
    """Check that the checkpoint has the epoch of each batch. If it starts later than the log, earlier records were deleted logically."""
    checkpoint = LeaderEpochCheckpoint(files, f"{expected.directory}/{LEADER_EPOCHS}")
    epochs = [each for report in reports for each in report.epochs]
    try:
        checkpoint.load()
    except CorruptLogError as error:
        findings.add(ERROR, checkpoint.path, str(error).removeprefix(f"{checkpoint.path}: "))
        return
    if not checkpoint.entries:
        if epochs:
            findings.add(WARNING, checkpoint.path, "is missing or empty; the next start rebuilds it")
        return
    begin = max(checkpoint.entries[0][1], expected.log_start_offset or 0)
    latest = -1
    for epoch, offset in epochs:
        if epoch <= latest:
            continue  # an earlier segment has it, or reported that epochs go back
        latest = epoch
        found = checkpoint.epoch_at(offset)
        if offset >= begin and found != epoch:
            severity = WARNING if not expected.was_clean and offset >= (expected.recovery_point or 0) else ERROR
            words = f"gives epoch {found} to offset {offset}, whose batch has {epoch}"
            findings.add(severity, checkpoint.path, words, kind="epochs that disagree with the log")


def all_findings(findings: Findings, reports: Sequence[SegmentReport]) -> list[Finding]:
    """Return the findings of the segments, then those of the folder."""
    return [*(finding for report in reports for finding in report.findings), *findings.all()]
