"""Options that client commands share: cluster, time-out, security, output format.

The security options are kept in click's context, where also completions and health checks find them. They become properties of the
client with the names of Java or librdkafka.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from minibroker.client.client import Client
from minibroker.client.connection import Connect, Connection, connect
from minibroker.client.errors import BrokerUnreachable, ClientError, NotAKafkaBroker, describe
from minibroker.client.transport import Address, Deadline

Command = Callable[..., Any]

PASSWORD_VARIABLE = "MINIBROKER_SECURITY_PASSWORD"  # noqa: S105  a name
_OPTION_VALUES = "minibroker.cli.options"  #: the key of the options in the context
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PROPERTIES = "properties"


def security_options(function: Command) -> Command:
    """Add the security options to a command. Their values are not passed to it: `client_properties` and `client_connect` have them."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta.setdefault(_OPTION_VALUES, {})[param.name] = value


def _option(*names: str, **attributes: Any) -> Callable[[Command], Command]:
    return click.option(*names, expose_value=False, is_eager=True, callback=_remember, **attributes)


_FILE = click.Path(exists=True, dir_okay=False)
_OPTIONS = (
    _option(
        "--command-config",
        envvar="MINIBROKER_COMMAND_CONFIG",
        show_envvar=True,
        type=_FILE,
        metavar="FILE",
        help="File of client properties, named as in Java or librdkafka.",
    ),
    _option(
        "--security-protocol",
        type=click.Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), case_sensitive=False),
        help="Protocol of the broker's listener.  [default: SASL_SSL with a user, SSL with a CA]",
    ),
    _option("--security-mechanism", type=click.Choice(_MECHANISMS), help="How the user logs in.  [default: SCRAM-SHA-512]"),
    _option("--security-user", metavar="NAME", help="User to log in as. With OAUTHBEARER: the subject of an unsecured token."),
    _option(
        "--security-password-file",
        type=_FILE,
        metavar="FILE",
        help=f"File with the password or token.  [default: {PASSWORD_VARIABLE}, or a prompt]",
    ),
    _option("--security-ca", type=_FILE, metavar="FILE", help="CA certificates to trust (PEM).  [default: the system's]"),
)


def client_properties(ctx: click.Context | None = None) -> Mapping[str, str]:
    """Return the client properties of the running command, from its file and its options, which take precedence. Reads them once."""
    ctx = ctx or click.get_current_context(silent=True)
    options: dict[str, Any] | None = None if ctx is None else ctx.meta.get(_OPTION_VALUES)
    if ctx is None or options is None:
        return {}
    if _PROPERTIES not in options:
        options[_PROPERTIES] = _read(options, may_ask=not ctx.resilient_parsing)
    found: Mapping[str, str] = options[_PROPERTIES]
    return found


def client_connect(ctx: click.Context | None = None) -> Connect:
    """Return the function that connects the running command to brokers."""
    properties = client_properties(ctx)
    if not properties:
        return connect_in_plaintext
    from minibroker.client.security.connecting import connector  # noqa: PLC0415  needs TLS and SASL

    return connector(properties)


def file_bootstrap(ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Use the brokers of the properties file, unless -b or the environment gives some. A callback of `-b`."""
    options: dict[str, Any] = ctx.meta.get(_OPTION_VALUES, {})
    if "command_config" not in options or ctx.get_parameter_source("bootstrap_server") is not click.core.ParameterSource.DEFAULT:
        return value
    return client_properties(ctx).get("bootstrap.servers", value)


def connect_in_plaintext(address: Address, deadline: Deadline) -> Connection:
    """Connect without TLS and SASL. If the listener has one of them, the error says so."""
    try:
        connection = connect(address, deadline)
    except (BrokerUnreachable, NotAKafkaBroker) as error:
        found = _mismatch(address, error)
        if found is None:
            raise
        raise found from error
    connection.explain = functools.partial(_mismatch, address)
    return connection


def _mismatch(address: Address, error: ClientError) -> ClientError | None:
    """Return the error for a listener that closed a connection because it needs TLS or SASL; None for another cause."""
    from minibroker.client.security.connecting import mismatch  # noqa: PLC0415  only a failure needs TLS

    cause = error if error.__cause__ is None or isinstance(error, NotAKafkaBroker) else error.__cause__
    return mismatch(address, "PLAINTEXT", cause if isinstance(cause, ClientError) else error)


def _read(options: Mapping[str, Any], *, may_ask: bool) -> dict[str, str]:
    properties: dict[str, str] = {}
    if "command_config" in options:
        from minibroker.config import sources  # noqa: PLC0415  only a file needs it

        properties = dict(sources.from_file(Path(options["command_config"])))
    user, ca = options.get("security_user"), options.get("security_ca")
    password_file = options.get("security_password_file")
    if "security_protocol" in options:
        properties["security.protocol"] = options["security_protocol"]
    elif "security.protocol" not in properties and (user or password_file or ca):
        properties["security.protocol"] = "SASL_SSL" if user or password_file else "SSL"
    if "security_mechanism" in options or user or password_file:
        mechanism = options.get("security_mechanism") or properties.get("sasl.mechanism") or "SCRAM-SHA-512"
        properties["sasl.mechanism"] = mechanism
        if user:
            properties["sasl.username"] = user
        password = _password(password_file, user, may_ask=may_ask and mechanism != "OAUTHBEARER")
        if password is not None:
            properties["sasl.password"] = password
    if ca:
        for name in [name for name in properties if name.startswith(("ssl.truststore.", "ssl.ca."))]:
            del properties[name]
        properties["ssl.ca.location"] = ca
    return properties


def _password(file: str | None, user: str | None, *, may_ask: bool) -> str | None:
    if file is not None:
        return Path(file).read_text("utf-8").rstrip("\r\n")
    if user is None:
        return None
    if PASSWORD_VARIABLE in os.environ:
        return os.environ[PASSWORD_VARIABLE]
    if not may_ask:
        return None
    if not sys.stderr.isatty():
        raise click.UsageError(f"the password of {user} is missing: give --security-password-file or {PASSWORD_VARIABLE}")
    password: str = click.prompt(f"Password of {user}", hide_input=True, err=True)
    return password


_bootstrap_server = click.option(
    "-b",
    "--bootstrap-server",
    envvar="MINIBROKER_BOOTSTRAP_SERVER",
    show_envvar=True,
    default="localhost:9092",
    show_default=True,
    metavar="HOST:PORT,...",
    callback=file_bootstrap,
    help="One or more brokers of the cluster.",
)


def bootstrap_option(function: Command) -> Command:
    """Add `-b` and the security options, which every command that connects to a cluster has."""
    return _bootstrap_server(security_options(function))


def open_client(bootstrap_server: str, timeout_s: float) -> Client:
    """Return the client of a command; tests replace it with a broker in memory."""
    return Client(bootstrap_server, timeout_ms=int(timeout_s * 1000), connect=client_connect())


def timeout_option(help_text: str) -> Callable[[Command], Command]:
    """Give a command `--timeout`, in seconds."""
    return click.option("--timeout", type=click.FloatRange(min=0.001), default=30.0, show_default=True, metavar="SECONDS", help=help_text)


def client_command(function: Command) -> Command:
    """Give a command `-b` and `--timeout`, and pass it a Client that is closed afterwards."""

    @bootstrap_option
    @timeout_option("Time-out, after which the command fails with exit code 124.")
    @functools.wraps(function)
    def run(*args: Any, bootstrap_server: str, timeout: float, **options: Any) -> Any:
        with open_client(bootstrap_server, timeout) as client:
            return function(client, *args, **options)

    return run


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Give a command `-o`; the first of `formats` is its default."""
    return click.option("-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="Output format.")


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """Parse `("a=b", ...)` into a dict; BadParameter for one without `=`."""
    found = {}
    for value in values:
        name, equals, content = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param_hint=option)
        found[name] = content
    return found


def fail_with(errors: list[Exception]) -> None:
    """Fail after partial success: print each error as a line on stderr, and raise the last, which sets the exit code."""
    for error in errors[:-1]:
        click.echo(f"Error: {describe(error)}", err=True)
    if errors:
        raise errors[-1]
