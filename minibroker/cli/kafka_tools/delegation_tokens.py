"""kafka-delegation-tokens: create, renew, expire and describe delegation tokens, with the output of Kafka's DelegationTokenCommand."""

from __future__ import annotations

import argparse
import base64
import binascii
from collections.abc import Sequence
from datetime import datetime

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, java_name, parser, the_one, words_of
from minibroker.client import access
from minibroker.client.client import Client
from minibroker.errors import KafkaError

_ROW = "\n{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
_HEAD = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


def run(arguments: Sequence[str]) -> int:
    """Run the tool. As in Kafka, the exit code is 0 even if the broker rejects the request."""
    options = _parser().parse_args(arguments)
    action = the_one(
        options,
        ("create", "renew", "expire", "describe"),
        "Command must include exactly one action: --create, --renew, --expire or --describe",
    )
    if not options.command_config:
        raise UsageError('Missing required argument "[command-config]"')
    with client_of(options) as client:
        try:
            {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}[action](client, options)
        except KafkaError as error:
            print(f"{java_name(error)}: {words_of(error)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    tool_parser = parser("kafka-delegation-tokens", "This tool helps to create, renew, expire, or describe delegation tokens.")
    add_bootstrap(tool_parser)
    for name in ("create", "renew", "expire", "describe"):
        tool_parser.add_argument(f"--{name}", action="store_true")
    for name in ("renewer-principal", "owner-principal"):
        tool_parser.add_argument(f"--{name}", action="append", default=[], metavar="TYPE:NAME")
    for name in ("max-life-time-period", "renew-time-period", "expiry-time-period"):
        tool_parser.add_argument(f"--{name}", type=int, metavar="MS")
    tool_parser.add_argument("--hmac")
    return tool_parser


def _create(client: Client, options: argparse.Namespace) -> None:
    lifetime = _required(options.max_life_time_period, "max-life-time-period")
    renewers = ", ".join(options.renewer_principal)
    print(f"Calling create token operation with renewers :[{renewers}] , max-life-time-period :{lifetime}")
    owner = options.owner_principal[0] if options.owner_principal else None
    token = access.create_token(client, owner=owner, renewers=options.renewer_principal, max_lifetime_ms=lifetime)
    print(f"Created delegation token with tokenId : {token.token_id}")
    _print([token])


def _renew(client: Client, options: argparse.Namespace) -> None:
    period = _required(options.renew_time_period, "renew-time-period")
    print(f"Calling renew token operation with hmac :{options.hmac} , renew-time-period :{period}")
    expires_ms = access.renew_token(client, _hmac(options), period)
    print(f"Completed renew operation. New expiry date : {_minute(expires_ms)}")


def _expire(client: Client, options: argparse.Namespace) -> None:
    period = _required(options.expiry_time_period, "expiry-time-period")
    print(f"Calling expire token operation with hmac :{options.hmac} , expire-time-period :{period}")
    expires_ms = access.expire_token(client, _hmac(options), period)
    print(f"Completed expire operation. New expiry date : {_minute(expires_ms)}")


def _describe(client: Client, options: argparse.Namespace) -> None:
    owners = options.owner_principal
    print(
        f"Calling describe token operation for owners :[{', '.join(owners)}]"
        if owners
        else "Calling describe token operation for current user."
    )
    found = access.list_tokens(client, owners)
    print(f"Total number of tokens : {len(found)}", end="")
    _print(found)


def _print(tokens: Sequence[access.Token]) -> None:
    print(_ROW.format(*_HEAD))
    for each in tokens:
        hmac = base64.b64encode(each.hmac).decode()
        dates = map(_minute, (each.issued_ms, each.expires_ms, each.latest_ms))
        print(_ROW.format(each.token_id, hmac, each.owner, each.requester, f"[{', '.join(each.renewers)}]", *dates))


def _required(value: int | None, name: str) -> int:
    if value is None:
        raise UsageError(f'Missing required argument "[{name}]"')
    return value


def _hmac(options: argparse.Namespace) -> bytes:
    try:
        return base64.b64decode(options.hmac or "", validate=True)
    except binascii.Error as error:
        raise UsageError("--hmac must be base64") from error


def _minute(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%dT%H:%M")
