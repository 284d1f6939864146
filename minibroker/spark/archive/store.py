"""The folder of an archive, and how a run becomes part of it: whole or not at all, at whatever step a job dies.

    ARCHIVE/topic=T/date=YYYY-MM-DD/part-RUN-N.zstd.parquet     published: what readers of Parquet see
    ARCHIVE/_minibroker/archive.json                            the archive's identity
    ARCHIVE/_minibroker/runs/RUN.json                           commits
    ARCHIVE/_minibroker/staging/RUN-ID/data/...                 where Spark writes
    ARCHIVE/_minibroker/staging/RUN-ID/commit.json              the commit, before it counts
    ARCHIVE/_minibroker/staging/dead-RUN-ID/...                 an attempt that can no longer be committed

The steps of a run are: write files to its staging folder; write commit.json beside them; commit, which gives
commit.json its name in runs/; move the files to their places; remove the staging folder. The run counts from the
commit on. A job that dies before it leaves a staging folder that the next job removes. A job that dies after it
leaves one from which the next job moves the other files.

Invariants:
- Runs have the numbers 1, 2, 3, ... The commit of a number that is taken fails, so each run was planned with
  knowledge of all runs before it.
- A staging folder is deleted only after it was renamed. The commit takes its file from the folder's first name, so
  after the rename it fails. A commit before the rename is found by the second check, which follows the rename.
  Committed files are never deleted.
- A published file is never written to, replaced or deleted.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from minibroker.spark.archive.files import TableFiles
from minibroker.spark.archive.manifest import ArchivedFile, Identity, Run, decode_identity, decode_run, encode_identity, encode_run
from minibroker.spark.failures import SourceError

OURS = "_minibroker"
DEAD = "dead-"
_ATTEMPT = re.compile(r"(?:dead-)?(\d{20})-([0-9a-f]{32})")
_RUN = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that is not committed yet: its number, an id among attempts of this number, and the folder for its files."""

    number: int
    run_id: str
    folder: str

    @property
    def data(self) -> str:
        """The folder that Spark writes to."""
        return f"{self.folder}/data"

    @property
    def commit_file(self) -> str:
        """The file of the commit in the staging folder."""
        return f"{self.folder}/commit.json"


class Recovered(NamedTuple):
    """The runs of dead jobs that a job finished, and the attempts that it removed."""

    finished: tuple[int, ...]
    removed: tuple[int, ...]


class ArchiveStore:
    """One archive's folder."""

    def __init__(self, files: TableFiles, path: str) -> None:
        self.files = files
        self.path = path
        self._ours = f"{path}/{OURS}"
        self._runs = f"{self._ours}/runs"
        self._staging = f"{self._ours}/staging"

    @property
    def lock_path(self) -> str:
        """The path for `files.lock`."""
        return f"{self._ours}/lock"

    @property
    def checkpoint(self) -> str:
        """The default folder for the state of a stream."""
        return f"{self._ours}/checkpoint"

    def is_there(self) -> bool:
        """Return whether there is an archive."""
        return self.files.size(f"{self._ours}/archive.json") is not None

    def check_folder(self) -> None:
        """Raise SourceError if the folder is neither an archive nor empty: it may hold half a table, or other data."""
        if self.is_there():
            return
        try:
            others = sorted(set(self.files.names(self.path)) - {OURS})
        except NotADirectoryError:
            raise SourceError(f"{self.path} is a file; an archive is a folder") from None
        if others:
            raise SourceError(
                f"{self.path} is not empty and not an archive (it holds {', '.join(others[:3])}{', ...' if len(others) > 3 else ''}): "
                "choose another folder, or empty it"
            )

    def identity(self) -> Identity:
        """Return the archive's identity; SourceError if there is no archive."""
        where = f"{self._ours}/archive.json"
        try:
            return decode_identity(self.files.read(where), where)
        except FileNotFoundError:
            raise SourceError(f"there is no archive at {self.path}") from None

    def open(self, format: str, isolation_level: str) -> Identity:  # noqa: A002  Spark's name
        """Create the archive, or check that the existing one has this format and isolation level; SourceError if not."""
        self.check_folder()
        if not self.is_there():
            created = Identity(uuid.uuid4().hex, format, isolation_level)
            draft = f"{self._ours}/archive-{created.archive_id}.json"
            self.files.write(draft, encode_identity(created))
            with suppress(FileExistsError):  # another job created it meanwhile: check that one
                self.files.commit(draft, f"{self._ours}/archive.json")
            self.files.remove(draft)
        found = self.identity()
        if found.format != format:
            raise SourceError(f"the archive at {self.path} is in {found.format}, not in {format}: its format is that of its first run")
        if found.isolation_level != isolation_level:
            raise SourceError(
                f"the archive at {self.path} was created with {found.isolation_level}: with {isolation_level} it would mix records "
                "of two isolation levels; archive to another folder"
            )
        return found

    def run_numbers(self) -> list[int]:
        """Return the numbers of the committed runs, in order."""
        return sorted(int(match[1]) for name in self.files.names(self._runs) if (match := _RUN.fullmatch(name)))

    def run(self, number: int) -> Run:
        """Return a committed run."""
        where = self._run_path(number)
        return decode_run(self.files.read(where), where)

    def runs(self) -> list[Run]:
        """Return all runs, in order; SourceError if one is missing."""
        numbers = self.run_numbers()
        if numbers != list(range(1, len(numbers) + 1)):
            missing = next(expected for expected, number in enumerate([*numbers, 0], 1) if expected != number)
            raise SourceError(f"{self._run_path(missing)} is missing: the manifest is damaged, restore it from a copy")
        return [self.run(number) for number in numbers]

    def latest(self) -> Run | None:
        """Return the last run, which has all topics of the archive; None if there is no run."""
        numbers = self.run_numbers()
        return self.run(numbers[-1]) if numbers else None

    def begin(self) -> Attempt:
        """Return an attempt at the next run; nothing is written yet."""
        number = (self.run_numbers() or [0])[-1] + 1
        run_id = uuid.uuid4().hex
        return Attempt(number, run_id, f"{self._staging}/{number:020d}-{run_id}")

    def commit(self, attempt: Attempt, run: Run) -> None:
        """Make an attempt part of the archive, and publish it. SourceError if another job was faster; nothing is kept then."""
        self.files.write(attempt.commit_file, encode_run(run))
        self.files.sync(attempt.folder)
        self._check_whole(attempt, run)
        try:
            self.files.commit(attempt.commit_file, self._run_path(run.number))
        except FileExistsError:
            self.give_up(attempt)
            raise SourceError(
                f"another job has archived to {self.path} meanwhile (run {run.number}); nothing of this run was kept, nothing is lost: "
                "run it again"
            ) from None
        except FileNotFoundError:
            raise self._taken_over() from None
        self.publish(run)

    def _check_whole(self, attempt: Attempt, run: Run) -> None:
        """Check that all files are beside commit.json: if the folder was renamed, writing commit.json has created a new one."""
        for file in run.files:
            if self.files.size(f"{attempt.data}/{file.staged}") != file.size:
                self.give_up(attempt)
                raise self._taken_over()

    def _taken_over(self) -> SourceError:
        return SourceError(
            f"another job has taken over the archive at {self.path}; nothing of this run was kept, nothing is lost: run it again"
        )

    def give_up(self, attempt: Attempt) -> None:
        """Remove an attempt that was not committed."""
        self.files.remove(attempt.folder)

    def publish(self, run: Run) -> None:
        """Move the files that are still in staging; safe to repeat after an interruption, and for two jobs at once."""
        name = f"{run.number:020d}-{run.run_id}"
        folders = (f"{self._staging}/{name}", f"{self._staging}/{DEAD}{name}")
        for file in run.files:
            self._publish_file(file, folders)
        for folder in folders:
            self.files.remove(folder)

    def unpublished(self) -> list[Run]:
        """Return the committed runs that may still have files in staging."""
        return [run for _, run in self._attempts() if run is not None]

    def locate(self, run: Run, file: ArchivedFile) -> str:
        """Return the current path of a file of a committed run."""
        name = f"{run.number:020d}-{run.run_id}"
        target = f"{self.path}/{file.path}"
        places = [target, f"{self._staging}/{name}/data/{file.staged}", f"{self._staging}/{DEAD}{name}/data/{file.staged}", target]
        for place in places:
            if self.files.size(place) is not None:
                return place
        raise self._lost(file)

    def recover(self) -> Recovered:
        """Finish the committed runs of dead jobs, and remove their other attempts."""
        finished, removed = [], []
        for name, run in self._attempts():
            if run is None:
                run = self._bury(name)  # noqa: PLW2901  it may have been committed meanwhile
            if run is None:
                self.files.remove(f"{self._staging}/{DEAD}{name.removeprefix(DEAD)}")
                removed.append(_parsed(name)[0])
            else:
                self.publish(run)
                finished.append(run.number)
        return Recovered(tuple(finished), tuple(removed))

    def _attempts(self) -> list[tuple[str, Run | None]]:
        """Return the staging folders, each with its run if that is committed."""
        names = sorted(name for name in self.files.names(self._staging) if _ATTEMPT.fullmatch(name))
        return [(name, self._committed(name)) for name in names]

    def _committed(self, name: str) -> Run | None:
        number, run_id = _parsed(name)
        try:
            run = self.run(number)
        except FileNotFoundError:
            return None
        return run if run.run_id == run_id else None

    def _bury(self, name: str) -> Run | None:
        """Rename an attempt so that it can no longer be committed; return its run if it was committed before."""
        if not name.startswith(DEAD):
            with suppress(FileNotFoundError):  # its job was faster: it has published or given up
                try:
                    self.files.move(f"{self._staging}/{name}", f"{self._staging}/{DEAD}{name}")
                except FileExistsError:  # renamed before by a dead job, and a Spark that outlived its driver has written to it since
                    self.files.remove(f"{self._staging}/{DEAD}{name}")
                    self.files.move(f"{self._staging}/{name}", f"{self._staging}/{DEAD}{name}")
        return self._committed(name)

    def _publish_file(self, file: ArchivedFile, folders: Sequence[str]) -> None:
        target = f"{self.path}/{file.path}"
        for folder in folders:
            try:
                self.files.move(f"{folder}/data/{file.staged}", target)
            except FileNotFoundError:
                continue
            except FileExistsError:
                break
            else:
                return
        if self.files.size(target) != file.size:
            raise self._lost(file)

    def _lost(self, file: ArchivedFile) -> SourceError:
        return SourceError(
            f"{self.path}/{file.path} is missing, or does not have the {file.size} bytes of the manifest: another program has changed "
            "the archive"
        )

    def _run_path(self, number: int) -> str:
        return f"{self._runs}/{number:020d}.json"


def _parsed(name: str) -> tuple[int, str]:
    match = _ATTEMPT.fullmatch(name)
    if match is None:
        raise ValueError(name)
    return int(match[1]), match[2]
