"""Options and messages as in Kafka's tools: whole words, with `=` or a blank; the Java names of errors."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from minibroker.cli.options import connect_in_plaintext
from minibroker.client.client import Client
from minibroker.errors import KafkaError

KAFKA_VERSION = "4.3.1"  #: the output of --version: the Kafka version whose tools these emulate
TIMEOUT_MS = 30_000


class UsageError(Exception):
    """Invalid options; printed as one line, with exit code 1 as in Kafka's tools."""


class Parser(argparse.ArgumentParser):
    """A parser that prints one line on stderr for wrong options."""

    def error(self, message: str) -> NoReturn:
        """Print the error with Kafka's message where scripts may look for it, and exit."""
        unknown = re.fullmatch(r"unrecognized arguments: -*([\w-]+).*", message)
        missing = re.fullmatch(r"the following arguments are required: (--[\w-]+).*", message)
        words = f"{unknown[1]} is not a recognized option" if unknown else f"{missing[1]} must be specified" if missing else message
        print(f"{words}\nSee {self.prog} --help", file=sys.stderr)
        sys.exit(1)


def parser(prog: str, what: str) -> Parser:
    """Return a parser with the options of all tools."""
    tool_parser = Parser(
        prog=prog, description=what, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False, allow_abbrev=False
    )
    tool_parser.add_argument("--help", action="help", help="Print usage information.")
    tool_parser.add_argument("--version", action="version", version=KAFKA_VERSION, help="Display Kafka version.")
    return tool_parser


def add_bootstrap(tool_parser: argparse.ArgumentParser, *aliases: str) -> None:
    """Add --bootstrap-server, and --command-config for a file of client properties."""
    tool_parser.add_argument(
        "--bootstrap-server", *aliases, required=True, metavar="HOST:PORT,...", help="REQUIRED: The brokers to connect to."
    )
    tool_parser.add_argument("--command-config", type=argparse.FileType("rb"), metavar="FILE", help="Properties of the client.")


def client_of(options: argparse.Namespace, timeout_ms: int = TIMEOUT_MS) -> Client:
    """Return the client of a tool; ConfigurationError if its properties cannot be used."""
    file = getattr(options, "command_config", None)
    if file is not None and file.seekable():
        file.seek(0)
    names = ("consumer_property", "producer_property", "command_property")
    settings = properties([pair for name in names for pair in getattr(options, name, ())], file)
    if "security.protocol" not in settings:
        return Client(options.bootstrap_server, timeout_ms=timeout_ms, connect=connect_in_plaintext)
    from minibroker.client.security.connecting import connector  # noqa: PLC0415  needs TLS and SASL

    return Client(options.bootstrap_server, timeout_ms=timeout_ms, connect=connector(settings))


def the_one(options: argparse.Namespace, actions: Sequence[str], message: str) -> str:
    """Return the one of these options that was given; UsageError unless exactly one was."""
    given = [action for action in actions if getattr(options, action.replace("-", "_")) not in (None, False)]
    if len(given) != 1:
        raise UsageError(message)
    return given[0]


def properties(pairs: Sequence[str] | None, file: Any = None) -> dict[str, str]:
    """Return `name=value` of repeated options, which override those of a properties file."""
    found: dict[str, str] = {}
    if file is not None:
        import javaproperties  # noqa: PLC0415  only a file needs it

        found = dict(javaproperties.load(file))
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{pair} is not name=value")
        found[name.strip()] = value
    return found


def include_list(text: str) -> re.Pattern[str]:
    """Return the pattern of a list of topics or regular expressions: Kafka's IncludeList."""
    regex = re.sub(r"^[\"']+|[\"']+$", "", text.strip().replace(",", "|").replace(" ", ""))
    try:
        return re.compile(regex)
    except re.error as error:
        raise UsageError(f"{regex} is an invalid regex.") from error


def split_configs(text: str) -> dict[str, str]:
    """Return `a=b,c=[d,e]` of --add-config as a dict; lists are in square brackets."""
    found = {}
    for match in re.finditer(r"([^=,\s]+)=(\[[^\]]*\]|[^,]*)", text):
        value = match[2]
        found[match[1]] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    if not found:
        raise UsageError(f'Invalid entity config: all configs to be added must be in the format "key=val": {text}')
    return found


def words_of(error: BaseException) -> str:
    """Return a broker's message without the prefix that names the object."""
    return str(error).partition(": ")[2] or str(error)


_PACKAGE: Final = "org.apache.kafka.common.errors"
_ENDING: Final = re.compile(r"(Failed|Error|Exception)?$")
#: our class -> Java's class, where it is not our name with `Exception` appended or in the place of `Failed` or `Error`
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
    """Return the Java client's class of an error, which Kafka's tools print and scripts look for."""
    name = type(error).__name__
    if name == "InvalidRecord":
        return "org.apache.kafka.common.InvalidRecordException"
    return f"{_PACKAGE}.{_OTHERS.get(name) or _ENDING.sub('', name, count=1) + 'Exception'}"
