"""`minibroker serve`: run a broker until it is stopped.

Prints one line when it serves. SIGTERM or Ctrl-C stops it: it answers open requests and closes logs cleanly. A second
signal ends it immediately, as a crash would, and the next start recovers.

When the last log directory goes offline the process exits with code 1, as Apache Kafka does. With a lab it continues, so that a
test can let disks fail.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from minibroker.cli.http_sites import HttpSites, http_options
from minibroker.cli.secure import ADMIN, SecurityOptions, security_of
from minibroker.cli.streams import drop_output
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import LIKE_KAFKA, TELEMETRY
from minibroker.config.listeners import NODES_MAX
from minibroker.config.sources import Setting
from minibroker.errors import ConfigurationError
from minibroker.server import logs
from minibroker.server.loop import put_off_garbage_collection, run, settle_garbage_collection

if TYPE_CHECKING:
    from minibroker.server.broker import Broker
    from minibroker.testing.lab.lab_broker import LabBroker

_BROKERS_HELP = "Simulate this many brokers, with consecutive ids and ports, to test clients. Nothing is replicated."
_TELEMETRY_HELP = f"Whether clients may push their own metrics: {TELEMETRY}.  [default: on]"
_LIKE_KAFKA_HELP = f"Behave as Apache Kafka does wherever minibroker deliberately differs: {LIKE_KAFKA}=true. See docs/differences.md."
_SASL_HELP = (
    "Let this user log in. The listener becomes SASL_PLAINTEXT: every client needs a password. "
    "Without a mechanism: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. Repeat it for more users."
)
_TLS_HELP = (
    "Encrypt: the listener becomes SSL, or SASL_SSL with --sasl. The first start creates an authority and certificates for this machine."
)
_MTLS_HELP = "Require a certificate of the authority, such as client.pem, from each client. The name in it is the user. Implies --tls."
_TLS_DIR_HELP = "Folder of the certificates, and of client.properties.  [default: beside the data: DATA-DIR.tls]"
_SECURE_HELP = "Same as --tls with a super user 'admin', whose password is printed once. Other users may do nothing until you allow it."
_SUPER_USER_HELP = "This user may do everything. Others may do only what --acl and 'kafka-acls' allow."
_ACL_HELP = "Add an access control entry, e.g. 'alice allow READ TOPIC orders-*'. Users may do only what entries allow."
_PORT = 9092
_DATA_DIR = "data"
_IMPORTED = time.perf_counter()
_DESCRIPTORS_MAX = 1 << 20
_OPEN_MAX = 10_240  #: of macOS
_THREAD_SWITCH_S = 0.0002  #: how long a computing worker thread may delay the loop after a system call


def _not_empty(_context: click.Context, _parameter: click.Parameter, path: str | None) -> str | None:
    """Reject an empty path: an unset variable of a shell would otherwise mean the current directory."""
    if path is not None and not path.strip():
        raise click.BadParameter("it is empty.")
    return path


@click.command()
@click.option(
    "-c", "--config", "config_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A server.properties file."
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set one property; overrides file and environment.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    callback=_not_empty,
    help="The log directory: log.dirs.  [default: ./data, unless log.dirs is set]",
)
@click.option("-p", "--port", type=click.IntRange(0, 65535), help="Listen on this port, 0 for a free one: listeners=PLAINTEXT://:PORT.")
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True, help="Format of log lines on stderr.")
@click.option("--log-level", type=click.Choice(logs.LEVELS), default="warning", show_default=True, help="The lowest level that is logged.")
@click.option("--brokers", "broker_count", type=click.IntRange(1, NODES_MAX), default=1, show_default=True, help=_BROKERS_HELP)
@click.option(
    "--racks", metavar="RACK,...", default="", help="Racks of the brokers in turn: --brokers 3 --racks a,b puts them into a, b and a."
)
@click.option("--like-kafka", "is_like_kafka", is_flag=True, help=_LIKE_KAFKA_HELP)
@click.option(
    "--sasl", "users", multiple=True, metavar="USER:PASSWORD[:MECHANISM]", envvar="MINIBROKER_SASL_USERS", show_envvar=True, help=_SASL_HELP
)
@click.option("--super-user", "super_users", multiple=True, metavar="USER", help=_SUPER_USER_HELP)
@click.option("--acl", "acls", multiple=True, metavar="TEXT", help=_ACL_HELP)
@click.option("--secure", "is_secure", is_flag=True, help=_SECURE_HELP)
@click.option("--tls", "has_tls", is_flag=True, help=_TLS_HELP)
@click.option("--mtls", "is_mutual", is_flag=True, help=_MTLS_HELP)
@click.option("--tls-dir", metavar="DIR", callback=_not_empty, help=_TLS_DIR_HELP)
@click.option("--telemetry", type=click.Choice(["on", "off"]), help=_TELEMETRY_HELP)
@http_options
@click.option("--ready-lines", type=click.Choice(["minibroker", "kafka"]), default="minibroker", hidden=True)
@click.pass_context
def serve(  # noqa: PLR0917  one for each option; click passes them by name
    ctx: click.Context,
    config_file: Path | None,
    assignments: tuple[str, ...],
    data_dir: str | None,
    port: int | None,
    log_format: str,
    log_level: str,
    broker_count: int,
    racks: str,
    users: tuple[str, ...],
    super_users: tuple[str, ...],
    acls: tuple[str, ...],
    tls_dir: str | None,
    telemetry: str | None,
    ready_lines: str,
    *,
    is_like_kafka: bool,
    is_secure: bool,
    has_tls: bool,
    is_mutual: bool,
) -> None:
    """Run a broker.

    Properties have Kafka's names. They come from --config, then from the environment (KAFKA_NUM_PARTITIONS means
    num.partitions), then from --set and the other options. Later ones take precedence.
    """
    sites = HttpSites.of_command(ctx)
    names = _racks_of(racks, broker_count)
    put_off_garbage_collection()
    sys.setswitchinterval(_THREAD_SWITCH_S)
    logs.set_up(log_format, log_level)
    _raise_descriptor_limit()
    arguments: dict[str, str] = {}
    if data_dir is not None:
        arguments["log.dirs"] = Setting(data_dir, "--data-dir")
    if is_like_kafka:
        arguments[LIKE_KAFKA] = "true"
    if telemetry is not None:
        arguments[TELEMETRY] = Setting("true" if telemetry == "on" else "false", "--telemetry")
    try:
        security = security_of(
            users, super_users, acls, tls_dir or f"{data_dir or _DATA_DIR}.tls",
            is_secure=is_secure, has_tls=has_tls or tls_dir is not None, is_mutual=is_mutual,
        )  # fmt: skip
        if port is not None or security.option is not None:
            address = f"{security.protocol}://:{_PORT if port is None else port}"
            arguments["listeners"] = Setting(address, "--port" if port is not None else str(security.option))
        arguments |= security.properties()
        config = BrokerConfig.load(file=config_file, environment=os.environ, assignments=assignments, arguments=arguments)
        sites.follow(config)
        sites.check(config)
        security.prepare(config)
        run(_serve(config, broker_count, names, sites, security, has_kafka_ready_lines=ready_lines == "kafka"))
    except ConfigurationError as error:
        raise click.ClickException(f"{error}{_advice(error)}") from error


def _racks_of(text: str, broker_count: int) -> list[str]:
    racks = [each.strip() for each in text.split(",") if each.strip()]
    if len(racks) > broker_count:
        raise click.UsageError(f"--racks names {len(racks)} racks for --brokers {broker_count}: at most one for each broker")
    return racks


def _advice(error: ConfigurationError) -> str:
    is_taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
    if not is_taken:
        return ""
    free = "" if str(error).startswith("--") else " (--port 0 takes a free port)"
    return f". Stop the process that uses the port, or choose another one{free}"


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files to its maximum, as the JVM does: 1,024 of a shell are too few for a thousand clients.

    macOS reports no maximum and accepts at most 10,240 (OPEN_MAX) or a limit of its kernel.
    """
    import resource  # noqa: PLC0415  not on Windows, where `serve` says so itself

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_MAX)
    for each in (limit, _OPEN_MAX):
        if soft == resource.RLIM_INFINITY or each <= soft:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (each, hard))
            return


async def _serve(
    config: BrokerConfig,
    broker_count: int,
    racks: list[str],
    sites: HttpSites,
    security: SecurityOptions,
    *,
    has_kafka_ready_lines: bool,
) -> None:
    stop, all_offline = asyncio.Event(), asyncio.Event()

    def exit_without_disks() -> None:
        all_offline.set()
        stop.set()

    def request_stop() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    parts: dict[str, Any] = {"on_open": None if security.access is None else security.access.write}
    if "lab" not in sites:
        parts |= {"on_all_offline": exit_without_disks} | sites.hooks()
    broker = _make_broker(config, broker_count, racks, parts, sites)
    await broker.start()
    try:
        await sites.start(broker)
    except BaseException:
        await broker.stop()
        raise
    settle_garbage_collection()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, request_stop)
    try:
        if security.new_password is not None:
            click.echo(f"user {ADMIN}, password {security.new_password} (shown once; {security.admin_file} has it for clients)")
        _print_ready(broker, config.log_dirs, broker_count, sites.urls)
        if has_kafka_ready_lines:
            from minibroker.cli.container.settings import kafka_ready_lines  # noqa: PLC0415  for the container image only

            click.echo("\n".join(kafka_ready_lines(config.node_id)))
    except OSError:
        drop_output()  # stdout is closed or full: the broker serves without it
    await stop.wait()
    if all_offline.is_set():
        _exit_without_disks(config.log_dirs)
    await sites.stop()
    await broker.stop()


def _exit_without_disks(log_dirs: tuple[str, ...]) -> NoReturn:
    """Exit immediately: an orderly stop would wait for disks that may hang, and can write nothing to them."""
    click.echo(
        f"Error: every log directory is offline ({', '.join(log_dirs)}), so minibroker exits. The log above says what failed: "
        "repair the disk or put the directory back, then start it again",
        err=True,
    )
    sys.stderr.flush()
    os._exit(1)


def _make_broker(config: BrokerConfig, broker_count: int, racks: list[str], parts: dict[str, Any], sites: HttpSites) -> Broker | LabBroker:
    """Return the broker, which does not run yet. `parts` are further arguments of its constructor."""
    if "lab" in sites:
        from minibroker.testing.lab.lab_broker import LabBroker  # noqa: PLC0415  for tests alone

        lab_broker = LabBroker(config, broker_count=broker_count, racks=racks, **parts)
        lab_broker.hosted.observer = sites.observer()
        return lab_broker
    if broker_count > 1 or racks:
        from minibroker.testing.simulation.broker import SimulatedBroker  # noqa: PLC0415  one broker does not need it

        return SimulatedBroker(config, broker_count=broker_count, racks=racks, **parts)
    from minibroker.server.broker import Broker  # noqa: PLC0415  a wrong configuration is reported without it

    return Broker(config, **parts)


def _print_ready(broker: Broker | LabBroker, log_dirs: tuple[str, ...], broker_count: int, sites: Mapping[str, str]) -> None:
    """Print the one line of `serve`."""
    directories = ", ".join(str(Path(log_dir).absolute()) for log_dir in log_dirs)
    several = f", {broker_count} simulated brokers: nothing is replicated" if broker_count > 1 else ""
    urls = "".join(f", {name} {url}" for name, url in sites.items())
    click.echo(f"minibroker ready: {', '.join(broker.addresses)}, data in {directories}{several}{urls}, {_running_s():.2f} s")


def _running_s() -> float:
    """Return the seconds since this process started, with the interpreter's start; Linux counts in 10 ms."""
    try:
        started_ticks = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return time.perf_counter() - _IMPORTED  # not Linux: the best estimate without other libraries
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
