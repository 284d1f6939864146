"""`minibroker dump-log`: the equivalent of Kafka's DumpLogSegments, for Kafka's directories and ours. Needs no broker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from minibroker.cli import dump_indexes
from minibroker.cli.dump_batches import BatchOptions, dump_batches, note_of
from minibroker.cli.dump_items import Item, problem, problem_text, text_of
from minibroker.cli.options import output_option
from minibroker.storage.checkpoint_file import LEADER_EPOCHS
from minibroker.storage.record_frame import CONSUMER_OFFSETS, TRANSACTION_STATE

BATCH_SUFFIXES = (".log", ".checkpoint")
INDEX_SUFFIXES = (".index", ".timeindex")
SUFFIXES = (*BATCH_SUFFIXES, *INDEX_SUFFIXES, ".txnindex", ".snapshot")


@click.command(
    "dump-log",
    epilog="""\b
Examples:
  minibroker dump-log data/orders-0 --index-sanity-check
  minibroker dump-log data/orders-0/00000000000000000000.log --print-data-log
  minibroker dump-log data/__cluster_metadata-0/*.log --cluster-metadata-decoder -o jsonl
  minibroker dump-log data/__transaction_state-7 --transaction-log-decoder
""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE...")
@click.option("--deep-iteration", is_flag=True, help="Print each record of a batch as well.")
@click.option("--print-data-log", is_flag=True, help="Print keys, values and headers as well; implies --deep-iteration.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode values as records of the metadata log; implies --deep-iteration.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of __transaction_state; implies --deep-iteration.")
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets; implies --deep-iteration.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only the content of records, and no control records.")
@click.option("--max-bytes", type=click.IntRange(min=1), metavar="N", help="Only the batches within the first N bytes of a file.")
@click.option("--index-sanity-check", is_flag=True, help="Only check that indexes are well formed, as a broker does when it starts.")
@click.option("--verify-index-only", is_flag=True, help="Only compare indexes with their segments.")
@output_option("text", "jsonl")
def dump_log(
    files: tuple[Path, ...],
    *,
    deep_iteration: bool,
    print_data_log: bool,
    cluster_metadata_decoder: bool,
    transaction_log_decoder: bool,
    offsets_decoder: bool,
    skip_record_metadata: bool,
    max_bytes: int | None,
    index_sanity_check: bool,
    verify_index_only: bool,
    output: str,
) -> None:
    """Print and check the files of a log directory.

    FILEs are .log, .checkpoint, .index, .timeindex, .txnindex, .snapshot and leader-epoch-checkpoint, or a directory with such
    files. The output is that of Kafka's DumpLogSegments. If a file is damaged, prints the file, position
    and error on stderr, and exits with 1.
    """
    if cluster_metadata_decoder + transaction_log_decoder + offsets_decoder > 1:
        raise click.UsageError("one decoder at a time")
    coordinator = TRANSACTION_STATE if transaction_log_decoder else CONSUMER_OFFSETS if offsets_decoder else None
    deep = deep_iteration or print_data_log or cluster_metadata_decoder or coordinator is not None
    options = BatchOptions(deep, print_data_log, cluster_metadata_decoder, coordinator, skip_record_metadata, max_bytes)
    indexes_only = index_sanity_check or verify_index_only
    problem_count = 0
    for file in _expanded(files):
        if indexes_only and file.suffix not in INDEX_SUFFIXES and file not in files:
            continue
        items = _dump(file, options, sanity_only=index_sanity_check, verify_only=verify_index_only)
        problem_count += _print(items, output)
    if problem_count:
        raise click.exceptions.Exit(1)


def _expanded(files: Iterable[Path]) -> Iterator[Path]:
    """Yield the files, and the files of directories sorted by name."""
    for file in files:
        if file.is_dir():
            yield from sorted(path for path in file.iterdir() if path.suffix in SUFFIXES or path.name == LEADER_EPOCHS)
        else:
            yield file


def _dump(path: Path, options: BatchOptions, *, sanity_only: bool, verify_only: bool) -> Iterator[Item]:
    note = note_of(path) if path.suffix in BATCH_SUFFIXES else ""
    yield {"type": "file", "file": str(path), "note": note}
    if path.suffix in BATCH_SUFFIXES:
        yield from dump_batches(path, options)
    elif path.suffix in INDEX_SUFFIXES and sanity_only:
        yield from dump_indexes.check_sanity(path)
    elif path.suffix == ".index":
        yield from dump_indexes.dump_offset_index(path, show=not verify_only, verify=True)
    elif path.suffix == ".timeindex":
        yield from dump_indexes.dump_time_index(path, show=not verify_only, verify=True)
    elif path.suffix == ".txnindex":
        yield from dump_indexes.dump_transaction_index(path)
    elif path.suffix == ".snapshot":
        yield from dump_indexes.dump_producer_snapshot(path)
    elif path.name == LEADER_EPOCHS:
        yield from dump_indexes.dump_leader_epochs(path)
    else:
        yield problem(str(path), f"not a known kind of file: {', '.join(SUFFIXES)}, {LEADER_EPOCHS}")


def _print(items: Iterable[Item], output: str) -> int:
    """Print items one by one; return the number of problems."""
    problem_count = 0
    for item in items:
        is_problem = item["type"] == "problem"
        if is_problem:
            problem_count += 1
            click.echo(f"Error: {problem_text(item)}", err=True)
        if output == "jsonl":
            print(json.dumps(item, ensure_ascii=False))
        elif not is_problem:
            print(text_of(item))
    return problem_count
