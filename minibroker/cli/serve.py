"""`minibroker serve`: run a broker until it is told to stop.

Prints one line when it serves. SIGTERM or Ctrl-C stops it: requests are answered, logs closed cleanly; a second one
ends it at once, as a crash would, and the next start recovers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import click

from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError
from minibroker.server import garbage, logs

_IMPORTED = time.perf_counter()
_DESCRIPTORS_MAX = 1 << 20
_THREAD_SWITCH_S = 0.0002  #: how long a worker thread that computes may keep the loop from going on behind a system call


@click.command()
@click.option(
    "-c", "--config", "config_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A server.properties file."
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="One property; stronger than file and environment.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the logs are: log.dirs.")
@click.option("-p", "--port", type=click.IntRange(0, 65535), help="Listen on this port, 0 for a free one: listeners=PLAINTEXT://:PORT.")
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True, help="Form of log lines on stderr.")
@click.option("--log-level", type=click.Choice(logs.LEVELS), default="warning", show_default=True, help="The least that is logged.")
def serve(  # noqa: PLR0917  one for each option; click passes them by name
    config_file: Path | None, assignments: tuple[str, ...], data_dir: Path | None, port: int | None, log_format: str, log_level: str
) -> None:
    """Run a broker.

    Properties have Kafka's names. They come from --config, then from the environment (KAFKA_NUM_PARTITIONS means
    num.partitions), then from --set and the other options: later ones win.
    """
    garbage.put_off()
    sys.setswitchinterval(_THREAD_SWITCH_S)
    logs.set_up(log_format, log_level)
    _raise_descriptor_limit()
    arguments = {}
    if data_dir is not None:
        arguments["log.dirs"] = str(data_dir)
    if port is not None:
        arguments["listeners"] = f"PLAINTEXT://:{port}"
    try:
        config = BrokerConfig.load(file=config_file, environment=os.environ, assignments=assignments, arguments=arguments)
        from minibroker.server.loop import run  # noqa: PLC0415  a wrong configuration is told without loading a broker

        run(_serve(config))
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error


def _raise_descriptor_limit() -> None:
    """Take as many open files as we may have: a shell's 1,024 are too few for a thousand clients. The JVM does so too."""
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(config: BrokerConfig) -> None:
    from minibroker.server.broker import Broker  # noqa: PLC0415  as above

    stop = asyncio.Event()

    def told_to_stop() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    broker = Broker(config)
    await broker.start()
    garbage.settle()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop)
    _say_ready(broker.addresses, config.log_dirs)
    await stop.wait()
    await broker.stop()


def _say_ready(addresses: list[str], log_dirs: tuple[str, ...]) -> None:
    """The one line that `serve` prints."""
    directories = ", ".join(str(Path(log_dir).absolute()) for log_dir in log_dirs)
    click.echo(f"minibroker ready: {', '.join(addresses)}, data in {directories}, {_running_s():.2f} s")


def _running_s() -> float:
    """Seconds since this process began, the interpreter's own start included; to 10 ms, as Linux counts."""
    try:
        started_ticks = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return time.perf_counter() - _IMPORTED  # no Linux: what can be known without asking for more
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
