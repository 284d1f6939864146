"""`produce --transactional-id`: all records are seen under read_committed, or none."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import Commands, wait_until_complete

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """A transactional id that nobody had."""
    return f"producer-{os.getpid()}-{next(_numbers)}"


def count(cli: Commands, topic: str, isolation: str) -> int:
    return len(cli("consume", topic, "-e", "--isolation", isolation).lines)


def lines(number: int) -> str:
    return "".join(f"{value}\n" for value in range(number))


def test_all_records_are_committed_together(cli: Commands, fresh: Callable[..., str], name: str) -> None:
    topic = fresh(partitions=3)
    cli("produce", topic, "--transactional-id", name, "--batch-bytes", "300", stdin=lines(500))
    wait_until_complete(cli, name)
    assert count(cli, topic, "read_committed") == 500
    cli("produce", topic, "--transactional-id", name, "-z", "zstd", stdin=lines(20))
    wait_until_complete(cli, name)
    assert sorted(map(int, cli("consume", topic, "-e", "--isolation", "read_committed").lines)) == sorted([*range(500), *range(20)])
    bounds = json.loads(cli("offsets", "--all", "-t", topic, "-o", "json").out)
    assert all(item["last_stable_offset"] == item["log_end_offset"] for item in bounds)


def test_refused_record_aborts_the_transaction(cli: Commands, fresh: Callable[..., str], name: str) -> None:
    topic = fresh(**{"max.message.bytes": "1000"})
    whole = ("--input", "jsonl", "--batch-bytes", "100")
    records = [json.dumps({"value": f"record {number}"}) for number in range(20)]
    for wrong in (json.dumps({"value": "x" * 2000}), "no JSON", json.dumps({"value": "y", "partition": 1})):
        cli("produce", topic, "--transactional-id", name, *whole, stdin="\n".join([*records, wrong, *records]), code=1)
        wait_until_complete(cli, name)
    assert count(cli, topic, "read_uncommitted") > 20
    assert count(cli, topic, "read_committed") == 0
    assert name not in cli("transactions", "list", "--state", "Ongoing", "-o", "name").lines


def test_how_it_ends(cli: Commands, fresh: Callable[..., str], name: str) -> None:
    topic = fresh()
    cli("produce", topic, "--transactional-id", name, "--transaction-end", "abort", stdin=lines(3))
    wait_until_complete(cli, name)
    assert (count(cli, topic, "read_committed"), count(cli, topic, "read_uncommitted")) == (0, 3)
    cli("produce", topic, "--transactional-id", name, "--transaction-end", "none", "--transaction-timeout", "40", stdin=lines(3))
    (item,) = json.loads(cli("transactions", "describe", name, "-o", "json").out)
    assert (item["state"], item["timeout_ms"], item["partitions"]) == ("Ongoing", 40_000, [{"topic": topic, "partition": 0}])
    assert json.loads(cli("offsets", "--all", "-t", topic, "-o", "jsonl").out)["last_stable_offset"] == 4
    cli("produce", topic, "--transactional-id", name, stdin=lines(2))  # fences the one before, and aborts what it left open
    wait_until_complete(cli, name)
    assert (count(cli, topic, "read_committed"), count(cli, topic, "read_uncommitted")) == (2, 8)
    cli("produce", topic, "--transactional-id", name, stdin="")  # begins nothing, and so ends nothing
    assert count(cli, topic, "read_committed") == 2


def test_transaction_timeout_above_the_broker_maximum_is_refused(cli: Commands, name: str) -> None:
    assert (
        "[INVALID_TRANSACTION_TIMEOUT]" in cli("produce", "any", "--transactional-id", name, "--transaction-timeout", "2000000", code=1).err
    )


@pytest.mark.parametrize("more", [["--acks", "1"], ["--acks", "0"], ["--no-idempotent"]])
def test_transactions_are_of_idempotent_producers(offline: Commands, more: list[str]) -> None:
    error = offline("produce", "any", "--transactional-id", "a", *more, code=2).err
    assert "--transactional-id needs --acks all and --idempotent" in error


@pytest.mark.parametrize("option", [["--transaction-end", "abort"], ["--transaction-end", "commit"], ["--transaction-timeout", "60"]])
def test_transaction_options_need_a_transactional_id(offline: Commands, option: list[str]) -> None:
    assert f"{option[0]} needs --transactional-id" in offline("produce", "any", *option, code=2).err
    assert "--transactional-id must not be empty" in offline("produce", "any", "--transactional-id", "", *option, code=2).err


def test_a_producer_that_is_fenced(cli: Commands, fresh: Callable[..., str], name: str) -> None:
    topic = fresh()
    command = [sys.executable, "-m", "minibroker", "produce", topic, "--transactional-id", name, "-b", cli.bootstrap]
    for more in (b"two\n", b""):  # the broker refuses a record, or the commit
        before = count(cli, topic, "read_uncommitted")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(b"one\n")
            process.stdin.flush()
            while count(cli, topic, "read_uncommitted") == before:  # it is sent when the input falls silent
                assert process.poll() is None
            cli("produce", topic, "--transactional-id", name, stdin=lines(1))
            _, error = process.communicate(more, timeout=120)
        assert process.returncode == 1
        words = f"Error: transactional id {name}: another producer took over the id, or --transaction-timeout has passed: "
        assert error.decode().startswith(words + "the broker aborted the transaction [")
        wait_until_complete(cli, name)
    assert cli("consume", topic, "-e", "--isolation", "read_committed").lines == ["0", "0"]


def test_ctrl_c_aborts(cli: Commands, fresh: Callable[..., str], name: str) -> None:
    topic = fresh()
    command = [sys.executable, "-m", "minibroker", "produce", topic, "--transactional-id", name, "-b", cli.bootstrap]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        while count(cli, topic, "read_uncommitted") < 2:  # it is sent when the input falls silent
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert wait_until_complete(cli, name)["state"] == "CompleteAbort"
    assert count(cli, topic, "read_committed") == 0
