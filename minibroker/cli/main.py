"""The `minibroker` command: a group whose commands are imported when they are called. All failures are handled here.

`serve` must answer within 400 ms of its exec, so nothing here imports a command, its libraries or the client.
Every failure is one line on stderr and an exit code:

    0    done
    1    failed: the broker rejected the request or was not found, a file is corrupt
    2    wrong usage: unknown option, missing argument
    124  time-out, as in timeout(1)
    130  Ctrl-C
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

import minibroker
from minibroker.cli.streams import printable, words_of
from minibroker.compilation import build

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


#: name -> (module, function, one line of help)
Commands = Mapping[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    """Has commands by name, and imports the one that is called: `@click.group(cls=LazyGroup, lazy=COMMANDS)`."""

    def __init__(self, *args: Any, lazy: Commands, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names of commands, sorted."""
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Import the module of one command."""
        if cmd_name not in self.lazy:
            return None
        module, function, _ = self.lazy[cmd_name]
        command = getattr(import_module(module), function)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{function} is not a click command")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does; for an unknown name, suggest the nearest one."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self.lazy, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """List the commands without importing any."""
        rows = [(name, self.lazy[name][2]) for name in sorted(self.lazy)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options of this group, without importing a command."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only completion pays for it

        options = click.Command.shell_complete(self, ctx, incomplete)
        return options + [CompletionItem(name, help=self.lazy[name][2]) for name in sorted(self.lazy) if name.startswith(incomplete)]


#: name -> (module, function, one line of help): help and completion need no import of a command
COMMANDS: dict[str, tuple[str, str, str]] = {
    "acls": ("minibroker.cli.acls", "acls", "Show and change access control lists."),
    "api-versions": ("minibroker.cli.api_versions", "api_versions", "Show which APIs and versions brokers serve."),
    "cluster": ("minibroker.cli.cluster", "cluster", "Show the brokers of a cluster, its controller, topics and partitions."),
    "completion": ("minibroker.cli.completions", "completion", "Print the script that completes commands in a shell."),
    "config": ("minibroker.cli.config", "config", "Explain the broker's properties, and check a properties file."),
    "configs": ("minibroker.cli.configs", "configs", "Show and change configs of topics, brokers, groups and more."),
    "consume": ("minibroker.cli.consume", "consume", "Read records of TOPICS to stdout."),
    "container": ("minibroker.cli.container.command", "container", "Run a broker like the container image."),
    "doctor": ("minibroker.cli.doctor", "doctor", "Find out why clients on this machine cannot work with a cluster."),
    "dump-log": ("minibroker.cli.dump_log", "dump_log", "Print and check the files of a log directory."),
    "groups": ("minibroker.cli.groups", "groups", "Show groups and their lag, reset their offsets, delete them."),
    "health": ("minibroker.cli.health", "health", "Check whether a broker serves requests."),
    "kafka-tool": ("minibroker.cli.kafka_tools.main", "kafka_tool", "Run one of Kafka's tools by its name, with its options."),
    "lab": ("minibroker.cli.lab", "lab", "Inject faults into a broker under test, and change its time and data."),
    "log-dirs": ("minibroker.cli.log_dirs", "log_dirs", "Show the log directories of brokers and what is in them, in bytes."),
    "metrics": ("minibroker.cli.metrics", "metrics", "Print the metrics of a broker that serves them."),
    "offsets": ("minibroker.cli.offsets", "offsets", "Show an offset of each partition: earliest, latest, or by time."),
    "produce": ("minibroker.cli.produce", "produce", "Write records from stdin or FILES to TOPIC."),
    "quotas": ("minibroker.cli.quotas", "quotas", "Show and change quotas of users and clients."),
    "schemas": ("minibroker.cli.schemas", "schemas", "List, show, register, check and delete schemas, and configure subjects."),
    "serve": ("minibroker.cli.serve", "serve", "Run a broker."),
    "spark": ("minibroker.cli.spark", "spark", "Run pipelines between topics and tables, on Spark."),
    "storage": ("minibroker.cli.storage", "storage", "Check, show and prepare log directories."),
    "tokens": ("minibroker.cli.tokens", "tokens", "Create, renew and end delegation tokens."),
    "topics": ("minibroker.cli.topics", "topics", "List, describe, create, delete and alter topics."),
    "transactions": ("minibroker.cli.transactions", "transactions", "Show transactions, and abort hanging ones."),
    "users": ("minibroker.cli.users", "users", "Show users with SCRAM passwords, add and remove them."),
}

#: options of most commands, which groups of commands do not have
OPTIONS_OF_COMMANDS = frozenset({"-b", "--bootstrap-server", "-o", "--output", "--timeout"})

EPILOG = """\b
Examples:
  minibroker serve --data-dir ./data
  minibroker topics create orders --partitions 3
  seq 10 | minibroker produce orders
  minibroker consume orders -e -f '%p %o %v\\n'
"""


class Main(LazyGroup):
    """The root group, which handles failures of commands."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. It stops silently after Ctrl-C and if its reader is gone (`| head`)."""
        if sys.platform == "win32":
            raise click.ClickException("minibroker does not run on Windows itself: use WSL 2 or a container.")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None
        except BrokenPipeError:
            raise click.exceptions.Exit(0) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from minibroker.cli.failures import failure_of  # noqa: PLC0415  only a failure pays for it

            failure = failure_of(error)
            if failure is None:
                raise
            raise failure from error

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]  # of click's overloads only this one is ours
        """Run and exit. A failure is one line, also a usage error."""
        extra.pop("standalone_mode", None)
        try:
            code = super().main(args=args, prog_name=prog_name or "minibroker", standalone_mode=False, **extra)
        except click.UsageError as error:
            if _is_help(error):  # `minibroker` and `minibroker groups` alone
                click.echo(error.format_message(), err=True)
                sys.exit(2)
            command = error.ctx.command_path if error.ctx else "minibroker"
            words = _plain(_misplaced(error) or error.format_message()).rstrip(".")
            click.echo(f"Error: {words}{'' if words.endswith(('?', '?)')) else '.'} Try '{command} --help'.", err=True)
            sys.exit(2)
        except click.ClickException as error:
            click.echo(f"Error: {_one_line(error.format_message())}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(130)
        except BrokenPipeError:  # of --help and --version, which click handles before it calls a command
            sys.exit(0)
        except OSError as error:
            click.echo(f"Error: {_one_line(words_of(error))}", err=True)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    """Print version, build and interpreter."""
    if is_wanted and not ctx.resilient_parsing:
        click.echo(f"minibroker {minibroker.__version__} ({build()})")
        ctx.exit()


@click.group("minibroker", cls=Main, lazy=COMMANDS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version and exit.")
def main() -> None:
    """A Kafka broker in one process, and commands that speak to any Kafka broker."""


def _is_help(error: click.UsageError) -> bool:
    """Return whether a group was called without a command: newer versions of click treat its help as an error."""
    return error.ctx is not None and error.message == error.ctx.get_help()


def _misplaced(error: click.UsageError) -> str | None:
    """Return the message for an option on the wrong side of a command (`minibroker -b HOST:PORT topics list`)."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return None
    group = error.ctx.parent
    if group is not None and any(error.option_name in parameter.opts for parameter in group.command.params):
        return f"No such option '{error.option_name}' after the command: write it after '{group.command_path}'."
    if not isinstance(error.ctx.command, click.Group) or error.option_name not in OPTIONS_OF_COMMANDS:
        return None
    return f"No such option '{error.option_name}' before a command: write it after the command."


#: click's names of types in messages -> plain English
_TYPES = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid float": "is not a number",
}
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
_OUT_OF_RANGE = re.compile(
    rf"(?P<given>\S+) is not in the range (?:(?P<low>{_NUMBER})<=)?x"
    rf"(?:<=(?P<high>{_NUMBER})|>=(?P<least>{_NUMBER})|>(?P<below>{_NUMBER}))"
)


def _plain(message: str) -> str:
    """Return a usage error without the names of click's types."""
    words = _one_line(message)
    for name, plain in _TYPES.items():
        words = words.replace(name, plain)
    return _OUT_OF_RANGE.sub(_as_bounds, words)


def _as_bounds(match: re.Match[str]) -> str:
    """Return `must be from 0 to 100, got 101` for click's `101 is not in the range 0<=x<=100.`."""
    low, high, below = match["low"] or match["least"], match["high"], match["below"]
    if below:
        return f"must be more than {below}, got {match['given']}"
    bounds = f"from {low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"
    return f"must be {bounds}, got {match['given']}"


def _one_line(message: str) -> str:
    return printable(" ".join(message.split()))
