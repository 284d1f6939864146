"""Find the partitions in log directories, and say what is wrong with a directory that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minibroker.errors import CorruptLogError
from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.folder import PartitionFolder
from minibroker.spark.kafka_log.options import ReadOptions
from minibroker.storage.checkpoint_file import LOG_START_OFFSET, OffsetCheckpoint
from minibroker.storage.directory_files import META_PROPERTIES
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import LOG, parse_file_name, parse_folder_name


def open_folders(files: Files, options: ReadOptions) -> list[PartitionFolder]:
    """Return the partitions asked for, sorted by topic and number; OptionError for a missing directory or topic."""
    found = {}
    for path in options.paths:
        for topic, partition, directory, log_start_offset in _partitions(files, path):
            if options.wants(topic, partition):
                found[topic, partition] = PartitionFolder(
                    files, directory, topic, partition, log_start_offset=log_start_offset, is_permissive=options.is_permissive
                )
    named = options.assigned or frozenset()
    missing = {f"{topic}-{partition}" for topic, partition in named if (topic, partition) not in found}
    missing |= (options.topics or frozenset()) - {topic for topic, _ in found}
    if missing:
        raise OptionError(f"{', '.join(sorted(missing))}: no such topic or partition in {', '.join(options.paths)}")
    return [found[key] for key in sorted(found)]


def _partitions(files: Files, path: str) -> Iterator[tuple[str, int, str, int]]:
    """Yield topic, partition, folder and log start offset of each partition in a log directory, or of the partition folder `path`."""
    try:
        names = files.names(path)
    except FileNotFoundError:
        raise OptionError(f"{path} does not exist") from None
    except NotADirectoryError:
        raise OptionError(f"{path} is a file; kafka-log reads a broker's log directory") from None
    folder = path.rpartition("/")[2]
    if _holds_segments(names):
        directory = path[: -len(folder) - 1]
        try:
            topic, partition = parse_folder_name(folder)
        except ValueError:
            raise OptionError(f"{path} holds segments, but its name is not topic-partition") from None
        yield topic, partition, path, _log_start_offsets(files, directory).get((topic, partition), 0)
        return
    partitions = []
    for name in names:
        try:
            partitions.append((*parse_folder_name(name), f"{path}/{name}"))
        except ValueError:
            continue  # checkpoints, folders of deleted partitions
    if META_PROPERTIES not in names:  # other folders have such names too: /etc has dbus-1
        partitions = [each for each in partitions if _has_segments(files, each[2])]
    if not partitions and META_PROPERTIES not in names:
        raise OptionError(
            f"{path} is not a Kafka log directory: it has neither {META_PROPERTIES} nor a folder topic-partition with segments"
        )
    starts = _log_start_offsets(files, path)
    for topic, partition, directory in partitions:
        yield topic, partition, directory, starts.get((topic, partition), 0)


def _holds_segments(names: Iterable[str]) -> bool:
    return any((parsed := parse_file_name(name)) and parsed[1] == LOG for name in names)


def _has_segments(files: Files, directory: str) -> bool:
    try:
        return _holds_segments(files.names(directory))
    except OSError:  # a file, or no permission
        return False


def _log_start_offsets(files: Files, directory: str) -> dict[tuple[str, int], int]:
    """Return the checkpoint of log start offsets; empty if it is missing or damaged, then the first segments count."""
    try:
        return OffsetCheckpoint(files, f"{directory}/{LOG_START_OFFSET}").read()
    except CorruptLogError:
        return {}
