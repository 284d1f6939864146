"""`minibroker container`: the container image's command, `minibroker serve` with its conventions (docs/container.md).

The variables KAFKA_SSL_KEYSTORE_FILENAME, KAFKA_SSL_KEYSTORE_CREDENTIALS and the like name files in a folder of secrets, as
in Apache Kafka's image. They are replaced by properties before the broker starts.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from errno import EACCES
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from minibroker.cli.container.new_topics import VARIABLE, parse_topics, with_seeds
from minibroker.cli.container.settings import CONFIG_FILE, HOST_PORT, OLD_NAMES, advertised_by_old_names, image_environment, own_address
from minibroker.cli.health_check import TIMEOUT_S, Unhealthy, check_registry, registry_port
from minibroker.cli.secure import protocol_of
from minibroker.config import sources
from minibroker.errors import ConfigurationError

if TYPE_CHECKING:
    from minibroker.server.broker import Broker

SEED_DIR = "/mnt/shared/seed"
SCHEMAS_DIR = "/mnt/shared/schemas"
SERVE_OPTIONS = "MINIBROKER_SERVE_OPTIONS"
_USERS = "MINIBROKER_SASL_USERS"

SECRETS_DIR: Final = "/etc/kafka/secrets"
_FILES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "KAFKA_SSL_KEYSTORE_LOCATION",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "KAFKA_SSL_TRUSTSTORE_LOCATION",
}
_PASSWORDS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "KAFKA_SSL_KEYSTORE_PASSWORD",
    "KAFKA_SSL_KEY_CREDENTIALS": "KAFKA_SSL_KEY_PASSWORD",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "KAFKA_SSL_TRUSTSTORE_PASSWORD",
}
_PASSWORD_MAX: Final = 64 * 1024  #: bytes; a key store that is named by mistake is not read whole


@click.command(
    short_help="Run a broker like the container image.",
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Examples:
  minibroker container
  minibroker container --set num.partitions=3 --log-level info
  minibroker container --health
""",
)
@click.option(
    "--config", "config_file", default=CONFIG_FILE, show_default=True, metavar="FILE", help="A server.properties file, if it exists."
)
@click.option(
    "--seed-dir",
    envvar="MINIBROKER_SEED_DIR",
    show_envvar=True,
    default=SEED_DIR,
    show_default=True,
    metavar="DIR",
    help="Folder of files TOPIC.txt and TOPIC.jsonl with the first records of new topics, if it exists.",
)
@click.option(
    "--schemas-dir",
    envvar="MINIBROKER_SCHEMAS_DIR",
    show_envvar=True,
    default=SCHEMAS_DIR,
    show_default=True,
    metavar="DIR",
    help="Folder of files SUBJECT.avsc, SUBJECT.json and SUBJECT.proto, whose schemas are registered, if it exists.",
)
@click.option(
    "--secrets-dir",
    envvar="MINIBROKER_SECRETS_DIR",
    show_envvar=True,
    default=SECRETS_DIR,
    show_default=True,
    metavar="DIR",
    help="Folder of the files that KAFKA_SSL_KEYSTORE_FILENAME and similar variables name.",
)
@click.option("--health", "is_health_check", is_flag=True, help="Check whether the broker of this container is healthy; exit with 0 or 1.")
@click.argument("serve_options", nargs=-1, type=click.UNPROCESSED)
def container(
    config_file: str, seed_dir: str, schemas_dir: str, secrets_dir: str, *, is_health_check: bool, serve_options: tuple[str, ...]
) -> None:
    """Run a broker like the container image.

    It takes the options of 'minibroker serve', and those in MINIBROKER_SERVE_OPTIONS. It uses the image's defaults for listeners and
    log.dirs. Before clients can connect, it creates the topics of KAFKA_CREATE_TOPICS and of the seed data, and registers schemas. It
    prints the lines by which other programs recognise that Apache Kafka is ready. MINIBROKER_REGISTRY_PORT opens the schema registry.
    """
    _exit_on_sigterm()
    file = Path(config_file)
    from_file = sources.from_file(file) if file.is_file() else {}
    added = image_environment(os.environ, from_file, own_address())
    if advertised_by_old_names(os.environ, from_file) is not None and not is_health_check:
        _take_old_names(added["KAFKA_ADVERTISED_LISTENERS"])
    os.environ.update(added)
    config_arguments = ["--config", config_file] if from_file else []
    try:
        options = [*_registry_options(os.environ), *_options_of(os.environ.get(SERVE_OPTIONS, "")), *serve_options]
        if is_health_check:
            _ask_health(config_arguments, options)
            return
        take_secret_files(os.environ, secrets_dir)
        topics = with_seeds(parse_topics(os.environ.get(VARIABLE, "")), Path(seed_dir))
        if topics or _has_files(schemas_dir):
            from minibroker.cli.container.preparing import prepare  # noqa: PLC0415  only containers with topics need it

            parsed = _parsed_options(options)
            properties = from_file | sources.from_environment(os.environ) | _properties(parsed)
            then = _registration(Path(schemas_dir)) if _has_files(schemas_dir) else None
            for line in prepare(properties, topics, broker_count=parsed.get("broker_count") or 1, then=then):
                click.echo(line)
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error
    _serve_command().main(args=[*config_arguments, "--ready-lines", "kafka", *options], prog_name="minibroker serve", standalone_mode=False)


def _has_files(folder: str) -> bool:
    return Path(folder).is_dir() and any(Path(folder).iterdir())


def _registration(folder: Path) -> Callable[[Broker], Awaitable[str]]:
    from minibroker.cli.container.new_schemas import register_schemas  # noqa: PLC0415  only containers with schemas need it

    return partial(register_schemas, folder)


def _registry_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options of `serve` for MINIBROKER_REGISTRY_PORT: other containers use the registry, too."""
    port = registry_port(environment)
    return [] if port is None else ["--registry-port", str(port), "--registry-host", "0.0.0.0"]


def _take_old_names(advertised: str) -> None:
    """Replace old variables, with one warning; otherwise `serve` warns that it does not know them."""
    old = [f"{name}={os.environ.pop(name)}" for name in OLD_NAMES if name in os.environ]
    what = f"{' and '.join(old)}: Kafka 4 does not know these variables"
    click.echo(f"Warning: {what}; used as KAFKA_ADVERTISED_LISTENERS={advertised}; set that instead", err=True)


def _ask_health(config_arguments: list[str], options: list[str]) -> None:
    """Check the listeners of the container's options, else those of its environment and file."""
    from minibroker.cli.health import health  # noqa: PLC0415  only a health check needs it

    parsed = _parse(options) if options or os.environ.get(_USERS) else None
    serve_options = {} if parsed is None else parsed.params
    listeners = _properties(serve_options).get("listeners") or _listener_of(serve_options)
    if listeners is not None:
        os.environ["KAFKA_LISTENERS"] = listeners
    place = None if parsed is None else _registry_place(parsed)
    if place is not None:
        try:
            check_registry(place[1], TIMEOUT_S, place[0])
        except Unhealthy as error:
            raise click.ClickException(str(error)) from error
    health.main(args=config_arguments, prog_name="minibroker health", standalone_mode=False)


def _listener_of(serve_options: Mapping[str, Any]) -> str | None:
    """Return the listener that options of `serve` demand instead of the configured ones."""
    if not serve_options:
        return None
    is_secure = serve_options["is_secure"]
    has_tls = is_secure or serve_options["has_tls"] or serve_options["is_mutual"] or serve_options["tls_dir"] is not None
    has_users = is_secure or bool(serve_options["users"])
    if serve_options["port"] is None and not has_tls and not has_users:
        return None
    return f"{protocol_of(has_users=has_users, has_tls=has_tls)}://:{HOST_PORT if serve_options['port'] is None else serve_options['port']}"


def _options_of(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"{SERVE_OPTIONS}: {text!r} cannot be split like in a shell: {error}") from error


def _parsed_options(options: list[str]) -> dict[str, Any]:
    """Return the options of `serve` by name; the broker that creates the topics needs some of them."""
    return _parse(options).params


def _parse(options: list[str]) -> click.Context:
    return _serve_command().make_context("serve", list(options), resilient_parsing=True)


def _registry_place(parsed: click.Context) -> tuple[str, int] | None:
    """Return the address of the schema registry in the options of `serve`, from MINIBROKER_REGISTRY_PORT or written out."""
    from minibroker.cli.http_sites import HttpSites  # noqa: PLC0415  `serve` has imported it

    return HttpSites.place_of_command(parsed, "registry")


def _serve_command() -> click.Command:
    from minibroker.cli.serve import serve  # noqa: PLC0415  a health check does not load the broker

    return serve


def _properties(serve_options: dict[str, Any]) -> dict[str, str]:
    found = sources.from_arguments(serve_options.get("assignments") or ())
    if serve_options.get("data_dir") is not None:
        found["log.dirs"] = str(serve_options["data_dir"])
    return found


def _exit_on_sigterm() -> None:
    """Exit on SIGTERM, which the first process of a container ignores without a handler; `serve` installs its own later."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, end)


def take_secret_files(environment: MutableMapping[str, str], folder: str) -> None:
    """Replace the variables that name secret files by variables of properties.

    Raises:
        ConfigurationError: a file does not exist, cannot be read, or is not a text.
    """
    for names in (_FILES, _PASSWORDS):
        for name, target in names.items():
            file_name = environment.pop(name, "")
            if not file_name:
                continue
            path = Path(f"{folder}/{file_name}")  # also for a name that begins with /, as in a shell script
            environment[target] = _password(name, path) if names is _PASSWORDS else str(path)
            if names is _FILES:
                _check_readable(name, path)


def _check_readable(name: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise _unreadable(name, path, error) from error


def _unreadable(name: str, path: Path, error: OSError) -> ConfigurationError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ConfigurationError(f"{name}: the file {path} does not exist")
    advice = f": user {os.geteuid()} of the container must be able to read it and to enter its folder" if error.errno == EACCES else ""
    return ConfigurationError(f"{name}: cannot read {path}: {error.strerror or error}{advice}")


def _password(name: str, path: Path) -> str:
    """Return the text of a file without line ends at its end."""
    try:
        with path.open("rb") as file:
            data = file.read(_PASSWORD_MAX + 1)
        text = data.decode().rstrip("\r\n")
    except OSError as error:
        raise _unreadable(name, path, error) from error
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name}: {path} is not a text file with a password") from None
    if len(data) > _PASSWORD_MAX or "\0" in text:
        raise ConfigurationError(f"{name}: {path} is not a text file with a password")
    return text
