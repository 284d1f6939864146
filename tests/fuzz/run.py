"""One run of the fuzzer: a broker, the honest client, the past findings, the frames, and everything that must hold after them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from random import Random
from typing import NamedTuple

from minibroker.client.client import Client
from minibroker.schemas import k10_find_coordinator, k19_create_topics, k49_alter_client_quotas
from tests.fuzz.answers import UNKNOWN, apis, judge
from tests.fuzz.connection import AnswerError, Connection
from tests.fuzz.driver import ANSWER_BOUND_S, Driver
from tests.fuzz.excluded import has_no_answer, may_wait
from tests.fuzz.findings import Finding, SentFrame, load, save
from tests.fuzz.honest import HonestClient, Report
from tests.fuzz.kafkas_errors import is_kafkas_answer
from tests.fuzz.login_listeners import PASSWORD, LoginListeners
from tests.fuzz.logins import Logins
from tests.fuzz.world import GROUPS, HONEST_CLIENT, SOMETIMES_THERE, TOPIC_CONFIGS, TOPICS, TRANSACTIONAL_IDS, World
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import check_metadata_log, dump

MAX_GROWTH_BYTES = 64 << 20
P99_MS = 20
MAX_MS = 250
HONEST_TOPIC = "q7d0c2m9x4t1"  #: a name that mutations do not hit
#: Members and transactions that were left alone end soon, so that a run sees it happen and its memory does not hold all of them.
PROPERTIES = {
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "minibroker.telemetry.interval.ms": "1",
    "group.min.session.timeout.ms": "1",
    "group.max.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "transaction.max.timeout.ms": "5000",
    "transactional.id.expiration.ms": "20000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "5000",
    "producer.id.expiration.ms": "20000",
    "producer.id.expiration.check.interval.ms": "5000",
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


class Outcome(NamedTuple):
    """What a run saw."""

    seed: int
    settled: dict[str, int]
    seconds: float
    broker_cpu_s: float
    growth_bytes: int
    peak_bytes: int
    honest: Report
    findings: list[tuple[Finding, Path]]

    @property
    def frames(self) -> int:
        """Frames that were answered or ended their connection."""
        return sum(self.settled.values())

    def lines(self) -> list[str]:
        """For a person."""
        became = ", ".join(f"{count} {what}" for what, count in sorted(self.settled.items()))
        return [
            f"seed {self.seed}: {self.frames} frames ({became}) in {self.seconds:.0f} s, {self.frames / self.seconds:.0f} a second",
            f"broker: {self.broker_cpu_s:.0f} s of CPU, memory grew by {self.growth_bytes >> 20} MB, peak {self.peak_bytes >> 20} MB",
            f"honest client: {self.honest.line()}",
            *(f"FOUND {finding.kind}: {finding.detail[-2000:]}\n    python -m tests.fuzz replay {path}" for finding, path in self.findings),
        ]

    def slowness(self) -> list[str]:
        """Where the honest client was slower than a quiet machine allows."""
        bounds = (("p99", self.honest.p99_ms, P99_MS), ("maximum", self.honest.max_ms, MAX_MS))
        return [f"the honest client's {what} is {found:.1f} ms, the bound is {bound} ms" for what, found, bound in bounds if found > bound]


class Run:
    """A broker to be fuzzed.

    Args:
        folder: where its data and what is found go.
        seed: of all chance.
        progress: called with a line now and then.
        logins: fuzz listeners with TLS and SASL before the login, in the place of all APIs.
    """

    def __init__(self, folder: Path, seed: int, progress: Callable[[str], None] = print, *, logins: bool = False) -> None:
        self._folder = folder
        self._seed = seed
        self._progress = progress
        self._findings: dict[str, tuple[Finding, Path]] = {}
        self._world = World()
        self._chance = Random(seed)
        self._logins = LoginListeners(folder) if logins else None
        properties = PROPERTIES if self._logins is None else {**PROPERTIES, **self._logins.properties()}
        arguments = [word for name, value in properties.items() for word in ("--set", f"{name}={value}")]
        self._log_dirs = (folder / "data", folder / "data-2")  # partitions move between them
        self._broker = BrokerProcess(folder, *arguments, log_dirs=self._log_dirs, port=0 if self._logins is None else -1)
        self._log_read = 0
        self._base_bytes = 0
        self._peak_bytes = 0

    def fuzz(self, frames: int, past: Iterable[Path] = (), *, warm_up: float = 0.15) -> Outcome:
        """Send past findings, then so many new frames; check everything.

        Args:
            frames: how many; memory is measured from `warm_up` of them on.
            past: files of findings.
            warm_up: share of the frames.
        """
        start = time.monotonic()
        with self._broker as broker, HonestClient(self._prepared(), HONEST_TOPIC) as honest:
            for path in past:
                self._send(load(path), path.name)
            driver = self._driver()

            def goes_on() -> bool:
                return self._watch(driver, start)

            driver.run(int(frames * warm_up), goes_on)
            self._base_bytes = self._peak_bytes = broker.resident_bytes() if self._broker.is_alive else 0
            driver.run(frames - driver.frames, goes_on)
            recent = driver.everything_recent()
            driver.close()
            return self._finish(recent, honest, dict(driver.settled), time.monotonic() - start)

    def _driver(self) -> Driver | Logins:
        if self._logins is None:
            return Driver(self._broker.port, self._seed, self._world, self._found)
        return Logins(self._logins, self._seed, self._world, self._found)

    def replay(self, paths: Iterable[Path]) -> Outcome:
        """Send the frames of findings again and check everything."""
        start = time.monotonic()
        with self._broker as broker, HonestClient(self._prepared(), HONEST_TOPIC) as honest:
            self._base_bytes = broker.resident_bytes()
            sent = {path.name: self._send(load(path), path.name) for path in paths}
            return self._finish((), honest, {"sent": sum(sent.values())}, time.monotonic() - start)

    def _prepared(self) -> int:
        """Create the topics, and give the honest client a quota that mutated quotas do not replace; the broker's port."""
        fixed = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "max.message.bytes": "1048588",
            "segment.bytes": "1048576",
        }
        fixed |= {"compression.type": "producer", "message.timestamp.type": "CreateTime", "min.insync.replicas": "1"}
        with Client(self._broker.bootstrap, timeout_ms=60_000) as client:
            topics = [_new_topic(name, 3, TOPIC_CONFIGS.get(name, {})) for name in (*TOPICS, *SOMETIMES_THERE)]
            topics.append(_new_topic(HONEST_TOPIC, 1, fixed))
            answer = client.ask(k19_create_topics, k19_create_topics.Request(topics=topics, timeout_ms=10_000))
            assert {topic.error_code for topic in answer.topics} == {0}, answer
            entity = [
                k49_alter_client_quotas.Entity(entity_type=kind, entity_name=name)
                for kind, name in (("user", "ANONYMOUS"), ("client-id", HONEST_CLIENT))
            ]
            keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
            ops = [k49_alter_client_quotas.Operation(key=key, value=1e12, remove=False) for key in keys]
            entries = [k49_alter_client_quotas.Entry(entity=entity, ops=ops)]
            quotas = client.ask(k49_alter_client_quotas, k49_alter_client_quotas.Request(entries=entries, validate_only=False))
            assert {entry.error_code for entry in quotas.entries} == {0}, quotas
            (honest,) = client.metadata([HONEST_TOPIC]).topics
            for key_type, coordinated in ((0, [*GROUPS]), (1, [*TRANSACTIONAL_IDS])):  # creates the coordinators' topics
                client.ask(k10_find_coordinator, k10_find_coordinator.Request(key_type=key_type, coordinator_keys=coordinated))
        self._world.hidden.add(honest.topic_id)
        return self._broker.port

    def _found(self, finding: Finding) -> None:
        """Keep the first of each kind."""
        if finding.kind not in self._findings:
            path = save(finding, self._folder / "findings", self._seed, len(self._findings))
            self._findings[finding.kind] = (finding, path)
            self._progress(f"FOUND {finding.kind}: {path}")

    def _watch(self, driver: Driver | Logins, start: float) -> bool:
        """Look at the process, its log and its memory four times a second or so; whether to go on."""
        now = time.monotonic()
        if now - getattr(self, "_watched_at", 0.0) < 0.25:
            return True
        self._watched_at = now
        if not self._broker.is_alive:
            self._found(Finding("the broker ended", self._broker.output[-3000:], driver.everything_recent()))
            return False
        self._peak_bytes = max(self._peak_bytes, self._broker.resident_bytes())
        self._read_log(driver.everything_recent)
        if now - getattr(self, "_told_at", start) > 10:
            self._told_at = now
            grown = (self._peak_bytes - self._base_bytes) >> 20 if self._base_bytes else 0
            self._progress(
                f"{driver.frames} frames, {driver.frames / (now - start):.0f} a second, {grown} MB, {len(self._findings)} findings"
            )
        return True

    def _read_log(self, frames: Callable[[], tuple[SentFrame, ...]]) -> None:
        """Report tracebacks that are new in the broker's log."""
        with self._broker.output_path.open("rb") as log:
            log.seek(self._log_read)
            fresh = log.read()
        *_, last = parts = fresh.decode(errors="replace").split("Traceback (most recent call last)")
        for part in parts[1:]:
            lines = part.splitlines()
            ending = next((line for line in lines[1:] if line and not line.startswith((" ", "\t"))), "")
            if not ending and part is last:  # not written to its end: read again the next time
                self._log_read += fresh.rindex(b"Traceback")
                return
            place = next((line for line in reversed(lines[: lines.index(ending)]) if line.startswith("  File ")), "") if ending else ""
            cause = re.sub(r"'.*?'|\d+", "", ending)[:70]  # the same words for other names and numbers
            self._found(Finding(f"traceback: {cause} in {place.rpartition(', in ')[2]}", part[:4000], frames()))
        if PASSWORD.encode() in fresh:
            self._found(Finding("a password in the log", fresh.decode(errors="replace")[:4000], frames()))
        self._log_read += len(fresh)

    def _finish(self, recent: tuple[SentFrame, ...], honest: HonestClient, settled: dict[str, int], seconds: float) -> Outcome:
        growth, cpu = 0, 0.0
        if self._broker.is_alive:
            growth, cpu = self._broker.resident_bytes() - self._base_bytes, cpu_seconds(self._broker.pid)
        report = honest.finish()
        if growth > MAX_GROWTH_BYTES:
            self._found(Finding("memory grew", f"by {growth >> 20} MB", recent))
        if report.wrong:
            self._found(Finding("the honest client's content", "; ".join(report.wrong[:5]), recent))
        if self._broker.is_alive:
            self._end(recent)
        return Outcome(self._seed, settled, seconds, cpu, growth, self._peak_bytes, report, list(self._findings.values()))

    def _end(self, recent: tuple[SentFrame, ...]) -> None:
        """SIGTERM, and what the directory looks like then."""
        try:
            code = self._broker.stop()
        except subprocess.TimeoutExpired:
            self._found(Finding("SIGTERM does not end the broker", self._broker.output[-3000:], recent))
            return
        if code:
            self._found(Finding(f"the broker ended with {code}", self._broker.output[-3000:], recent))
        self._read_log(lambda: recent)
        check = [sys.executable, "-m", "minibroker", "storage", "check", *map(str, self._log_dirs)]
        checked = subprocess.run(check, capture_output=True, text=True, check=False)
        if checked.returncode:
            self._found(Finding("storage check", (checked.stdout + checked.stderr)[-4000:], recent))
        if shutil.which("java"):
            try:
                _dump(self._log_dirs)
            except AssertionError as error:
                self._found(Finding("DumpLogSegments", str(error)[:4000], recent))

    def _send(self, frames: list[SentFrame], name: str) -> int:
        """Send the frames of a finding, each connection's in one piece; how many."""
        for number, sent in groupby(sorted(frames, key=lambda each: each.connection), key=lambda each: each.connection):
            self._send_on_one(number, [each.data for each in sent], name)
        return len(frames)

    def _send_on_one(self, number: int, pieces: list[bytes], name: str) -> None:
        while pieces and self._broker.is_alive:
            connection = Connection(number, self._broker.port, self._chance, torn=False)
            connection.queue([piece[4:] for piece in pieces])
            end = time.monotonic() + ANSWER_BOUND_S
            while not connection.is_closed and any(not has_no_answer(each.frame) for each in connection.waiting):
                oldest = next(each for each in connection.waiting if not has_no_answer(each.frame))
                if time.monotonic() > end and not may_wait(oldest.frame):
                    self._found(Finding(f"{name}: silence", f"API {oldest.api_key} v{oldest.version}", ()))
                    break
                connection.write()
                try:
                    for answer in connection.read():
                        request = answer.request
                        verdict = judge(request.api_key, request.version, answer.frame, self._world, self._chance)
                        if verdict.wrong and not (verdict.wrong == UNKNOWN and is_kafkas_answer(request.frame)):
                            self._found(Finding(f"{name}: {verdict.wrong} by {apis()[request.api_key].name} v{request.version}", "", ()))
                except AnswerError as error:
                    self._found(Finding(f"{name}: wrong answer", str(error), ()))
                    break
                time.sleep(0.001)
            rest = len(connection.waiting) - 1 if connection.is_closed else 0
            connection.close()
            pieces = pieces[len(pieces) - rest :] if rest > 0 else []


def _new_topic(name: str, partitions: int, configs: dict[str, str]) -> k19_create_topics.Topic:
    named = [k19_create_topics.Config(name=key, value=value) for key, value in configs.items()]
    return k19_create_topics.Topic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=named)


def _dump(log_dirs: tuple[Path, ...]) -> None:
    """Kafka's DumpLogSegments over every log, index and metadata record."""
    folders = [folder for path in log_dirs for folder in sorted(path.iterdir()) if folder.is_dir()]
    folders = [folder for folder in folders if not folder.name.startswith("__cluster_metadata")]
    dump([log for folder in folders for log in sorted(folder.glob("*.log"))], "--deep-iteration", may_have_gaps=True)
    dump([index for folder in folders for index in sorted(folder.glob("*.*index"))], "--index-sanity-check")
    check_metadata_log(log_dirs[0])


def cpu_seconds(pid: int) -> float:
    """CPU that a process used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
