"""Options as Kafka's tools take them: whole words, with `=` or a blank."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from minibroker.client.client import Client
from minibroker.errors import KafkaError

KAFKA_VERSION = "4.3.1"  #: what --version prints: the Kafka whose tools these are like
TIMEOUT_MS = 30_000


class UsageError(Exception):
    """Options that do not go together; one line, exit code 1 as in Kafka's tools."""


class Parser(argparse.ArgumentParser):
    """Wrong options are one line on stderr."""

    def error(self, message: str) -> NoReturn:
        """In Kafka's words where scripts may look for them."""
        unknown = re.fullmatch(r"unrecognized arguments: -*([\w-]+).*", message)
        missing = re.fullmatch(r"the following arguments are required: (--[\w-]+).*", message)
        words = f"{unknown[1]} is not a recognized option" if unknown else f"{missing[1]} must be specified" if missing else message
        print(f"{words}\nSee {self.prog} --help", file=sys.stderr)
        sys.exit(1)


def parser(prog: str, what: str) -> Parser:
    """A parser with what every tool has."""
    made = Parser(prog=prog, description=what, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False, allow_abbrev=False)
    made.add_argument("--help", action="help", help="Print usage information.")
    made.add_argument("--version", action="version", version=KAFKA_VERSION, help="Display Kafka version.")
    return made


def add_bootstrap(to: argparse.ArgumentParser, *aliases: str) -> None:
    """--bootstrap-server, and the file of a client's properties, which must be there."""
    to.add_argument("--bootstrap-server", *aliases, required=True, metavar="HOST:PORT,...", help="REQUIRED: The brokers to connect to.")
    to.add_argument("--command-config", type=argparse.FileType("rb"), metavar="FILE", help="Properties of the client; none is needed here.")


def client_of(options: argparse.Namespace, timeout_ms: int = TIMEOUT_MS) -> Client:
    """The client of a tool; UsageError where its properties ask for what it does not speak."""
    file = getattr(options, "command_config", None)
    if file is not None and file.seekable():
        file.seek(0)
        protocol = properties((), file).get("security.protocol", "PLAINTEXT").upper()
        if protocol != "PLAINTEXT":
            raise UsageError(f"{file.name}: security.protocol={protocol} is not served: this tool speaks PLAINTEXT alone")
    return Client(options.bootstrap_server, timeout_ms=timeout_ms)


def the_one(options: argparse.Namespace, actions: Sequence[str], message: str) -> str:
    """Which of these options was given; UsageError unless it is one."""
    given = [action for action in actions if getattr(options, action.replace("-", "_")) not in (None, False)]
    if len(given) != 1:
        raise UsageError(message)
    return given[0]


def properties(pairs: Sequence[str] | None, file: Any = None) -> dict[str, str]:
    """`name=value` of repeated options, over those of a properties file."""
    found: dict[str, str] = {}
    if file is not None:
        import javaproperties  # noqa: PLC0415  only a file pays for it

        found = dict(javaproperties.load(file))
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{pair} is not name=value")
        found[name.strip()] = value
    return found


def include_list(text: str) -> re.Pattern[str]:
    """Topics by a regular expression, or a list of them: Kafka's IncludeList."""
    regex = re.sub(r"^[\"']+|[\"']+$", "", text.strip().replace(",", "|").replace(" ", ""))
    try:
        return re.compile(regex)
    except re.error as error:
        raise UsageError(f"{regex} is an invalid regex.") from error


def split_configs(text: str) -> dict[str, str]:
    """`a=b,c=[d,e]` of --add-config: square brackets hold lists together."""
    found = {}
    for match in re.finditer(r"([^=,\s]+)=(\[[^\]]*\]|[^,]*)", text):
        value = match[2]
        found[match[1]] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    if not found:
        raise UsageError(f'Invalid entity config: all configs to be added must be in the format "key=val": {text}')
    return found


def failure_text(error: Exception) -> str | None:
    """Return the line that a tool prints for an error; None for a bug, which keeps its traceback."""
    from minibroker.cli.failures import failure_of  # noqa: PLC0415  only a failure needs it

    if isinstance(error, UsageError):
        return str(error)
    if isinstance(error, KafkaError):
        return f"Error: {words_of(error)} [{error.name}]"
    failure = failure_of(error)
    return None if failure is None else f"Error: {failure.message}"


def words_of(error: BaseException) -> str:
    """What a broker said, without what we say it is about."""
    return str(error).partition(": ")[2] or str(error)


_PACKAGE: Final = "org.apache.kafka.common.errors"
_ENDING: Final = re.compile(r"(Failed|Error|Exception)?$")
#: ours -> Java's, where it is not ours with `Exception` in the place of `Failed`, `Error` or nothing
_OTHERS: Final = {
    "CorruptMessage": "CorruptRecordException",
    "RequestTimedOut": "TimeoutException",
    "MessageTooLarge": "RecordTooLargeException",
    "StaleControllerEpoch": "ControllerMovedException",
    "OffsetMetadataTooLarge": "OffsetMetadataTooLarge",
    "RecordListTooLarge": "RecordBatchTooLargeException",
    "TopicAlreadyExists": "TopicExistsException",
    "InvalidConfig": "InvalidConfigurationException",
    "OutOfOrderSequenceNumber": "OutOfOrderSequenceException",
    "DuplicateSequenceNumber": "DuplicateSequenceException",
    "InvalidProducerIdMapping": "InvalidPidMappingException",
    "InvalidTransactionTimeout": "InvalidTxnTimeoutException",
    "DelegationTokenAuthDisabled": "DelegationTokenDisabledException",
    "DelegationTokenRequestNotAllowed": "UnsupportedByAuthenticationException",
    "NonEmptyGroup": "GroupNotEmptyException",
    "FeatureUpdateFailed": "FeatureUpdateFailedException",
    "PrincipalDeserializationFailure": "PrincipalDeserializationException",
    "InvalidRegularExpression": "InvalidRegularExpression",
}


def java_name(error: KafkaError) -> str:
    """With its package."""
    name = type(error).__name__
    if name == "InvalidRecord":
        return "org.apache.kafka.common.InvalidRecordException"
    return f"{_PACKAGE}.{_OTHERS.get(name) or _ENDING.sub('', name, count=1) + 'Exception'}"
