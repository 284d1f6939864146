"""Errors against the table printed from Kafka's own jar (see the head of the golden file)."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker import errors

GOLDEN = Path(__file__).parent / "golden" / "errors_kafka_4.3.1.tsv"


def kafka_table() -> dict[int, tuple[str, bool]]:
    rows = (line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#"))
    return {int(code): (name, retriable == "true") for code, name, retriable in rows}


def test_codes_names_and_retriable_flags_match_kafka() -> None:
    expected = kafka_table()
    assert expected.pop(errors.NONE) == ("NONE", False)
    assert {code: (error.name, error.retriable) for code, error in errors.BY_CODE.items()} == expected


def test_each_class_is_found_under_its_camel_case_name() -> None:
    for code, error in errors.BY_CODE.items():
        assert error.code == code
        assert getattr(errors, "".join(word.capitalize() for word in error.name.split("_"))) is error


@pytest.mark.parametrize(
    ("error", "text"), [(errors.InvalidConfig("no such key"), "no such key"), (errors.InvalidConfig(), "Configuration is invalid.")]
)
def test_default_message_is_the_one_of_kafka(error: errors.KafkaError, text: str) -> None:
    assert str(error) == text


def test_a_message_fits_into_a_string_of_an_answer() -> None:
    short = "é" * errors.MAX_MESSAGE_LETTERS
    assert str(errors.GroupIdNotFound(short)) == short
    message = str(errors.GroupIdNotFound("\U0001f600" * 32767))
    assert (len(message), message[-3:]) == (errors.MAX_MESSAGE_LETTERS + 3, "...")
    assert len(message.encode()) <= 32767


def test_internal_errors_have_no_code() -> None:
    for kind in (errors.WireError, errors.CorruptLogError, errors.ConfigurationError):
        assert not issubclass(kind, errors.KafkaError)
