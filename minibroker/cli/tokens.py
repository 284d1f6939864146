"""`minibroker tokens`: the equivalent of Kafka's DelegationTokenCommand."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import click

from minibroker.cli.options import client_command, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.client import access
from minibroker.client.client import Client
from minibroker.security.acl import principal_of

COLUMNS = ("token_id", "owner", "requester", "renewers", "issued_ms", "expires_ms", "latest_ms")


@click.group(
    epilog="""\b
Examples:
  minibroker tokens create --renewer spark --command-config alice.properties -o json
  minibroker tokens list --command-config alice.properties
  minibroker tokens renew TOKEN_ID --command-config alice.properties
  minibroker tokens expire TOKEN_ID --command-config alice.properties
"""
)
def tokens() -> None:
    """Create, renew and end delegation tokens."""


@tokens.command(short_help="Create a token.")
@click.option("--owner", metavar="NAME", help="Create the token for this user instead of yourself.")
@click.option("--renewer", "renewers", multiple=True, metavar="NAME", help="A user who may renew the token; may be given several times.")
@click.option("--lifetime-ms", type=click.IntRange(min=1), metavar="MS", help="Maximum lifetime.  [default: the broker's]")
@output_option("text", "json", "yaml")
@client_command
def create(client: Client, *, owner: str | None, renewers: tuple[str, ...], lifetime_ms: int | None, output: str) -> None:
    """Create a token, and print its id and secret (HMAC): the user and password for SCRAM with tokenauth=true."""
    token = access.create_token(
        client,
        owner=None if owner is None else principal_of(owner),
        renewers=[principal_of(each) for each in renewers],
        max_lifetime_ms=lifetime_ms or -1,
    )
    item = {**_item(token), "hmac": base64.b64encode(token.hmac).decode()}
    if output == "text":
        click.echo(f"{token.token_id} {item['hmac']}")
    else:
        emit([item], output, columns=())


@tokens.command("list", short_help="List tokens.")
@click.option("--owner", "owners", multiple=True, metavar="NAME", help="Only tokens of this user; may be given several times.")
@output_option(*FORMATS)
@client_command
def list_tokens(client: Client, *, owners: tuple[str, ...], output: str) -> None:
    """List the tokens that you may see, without their secrets."""
    found = access.list_tokens(client, [principal_of(each) for each in owners])
    emit([_item(each) for each in found], output, columns=COLUMNS, name="token_id", empty="No tokens that you may see.")


@tokens.command(short_help="Renew a token.")
@click.argument("token")
@click.option("--period-ms", type=click.IntRange(min=1), metavar="MS", help="Time until it expires.  [default: the broker's]")
@client_command
def renew(client: Client, *, token: str, period_ms: int | None) -> None:
    """Renew a token, by its id or by @FILE with its HMAC. Prints when it expires, in milliseconds since the epoch."""
    click.echo(access.renew_token(client, _hmac(client, token), period_ms or -1))


@tokens.command(short_help="End a token.")
@click.argument("token")
@click.option("--period-ms", type=click.IntRange(min=1), metavar="MS", help="Time until it expires.  [default: at once]")
@client_command
def expire(client: Client, *, token: str, period_ms: int | None) -> None:
    """Let a token expire, by its id or by @FILE with its HMAC. Prints when it expires, in milliseconds since the epoch."""
    click.echo(access.expire_token(client, _hmac(client, token), period_ms or -1))


def _hmac(client: Client, token: str) -> bytes:
    """Return the secret of a token. It is never an argument itself: other processes can read those."""
    if token.startswith("@"):
        try:
            return base64.b64decode(Path(token[1:]).read_text("ascii").strip(), validate=True)
        except (binascii.Error, UnicodeDecodeError):
            raise click.BadParameter(f"{token[1:]} is not a file with an HMAC in base64") from None
    for each in access.list_tokens(client):
        if each.token_id == token:
            return each.hmac
    raise click.ClickException(f"there is no token {token}, or this user may not see it")


def _item(token: access.Token) -> dict[str, Any]:
    shown = token._asdict()
    del shown["hmac"]
    return {**shown, "renewers": list(token.renewers)}
