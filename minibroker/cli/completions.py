"""Complete names of topics, groups, brokers and configs in a shell, from the cluster of the command line; print the script for a shell.

A shell runs this at a press of a key. If no broker answers within a second, there are no names and no error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import click

from minibroker.cli.options import client_connect
from minibroker.client.client import Client
from minibroker.client.errors import ClientError
from minibroker.errors import ConfigurationError, KafkaError, WireError

_TIMEOUT_MS: Final = 1000


def topic_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete topics; internal ones only after an underscore."""
    return _begun(_ask(ctx, "topics"), incomplete)


def group_ids(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete groups of all types."""
    return _begun(_ask(ctx, "groups"), incomplete)


def entities(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete entities of the type before them."""
    kind = str(ctx.params.get("kind"))
    names = _ask(ctx, kind)
    if kind == "groups":
        names |= _ask(ctx, "groups with configs")
    return _begun(names, incomplete)


def config_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete `NAME=` of configs of the type before them, of topics without a type."""
    return [f"{name}=" for name in _begun(_configs(ctx), incomplete)]


def deletable_config_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of configs."""
    return _begun(_configs(ctx), incomplete)


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and (incomplete or not name.startswith("_")))


def _configs(ctx: click.Context) -> Iterable[str]:
    from minibroker.config import broker_properties, client_metrics_properties, group_properties, topic_properties  # noqa: PLC0415  see below

    properties = {
        "topics": topic_properties.TOPIC_PROPERTIES,
        "brokers": broker_properties.BROKER_PROPERTIES,
        "groups": group_properties.GROUP_PROPERTIES,
        "client-metrics": client_metrics_properties.CLIENT_METRICS_PROPERTIES,
    }
    kind = ctx.params.get("kind", "topics") or next(iter(ctx.args), "")  # click parses nothing while an option lacks its value
    return [name for name, prop in properties.get(kind, {}).items() if prop.is_dynamic]


def _ask(ctx: click.Context, what: str) -> set[str]:
    """Return names of the cluster; none if it does not answer."""
    from minibroker.client import configs, groups  # noqa: PLC0415  only completions need them

    bootstrap = ctx.params.get("bootstrap_server") or os.environ.get("MINIBROKER_BOOTSTRAP_SERVER") or "localhost:9092"
    try:
        with Client(str(bootstrap), timeout_ms=_TIMEOUT_MS, connect=client_connect(ctx)) as client:
            if what == "topics":
                return {topic.name or "" for topic in client.metadata(None, client.deadline()).topics}
            if what == "groups":
                return {each.group for each in groups.list_groups(client)}
            if what in {"brokers", "broker-loggers"}:
                client.metadata([], client.deadline())
                return {str(node_id) for node_id in client.brokers}
            return set(configs.list_entities(client, "groups" if what == "groups with configs" else what))
    except (ClientError, ConfigurationError, KafkaError, WireError, OSError):
        return set()


VARIABLE = "_MINIBROKER_COMPLETE"  #: the variable that makes click complete
SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog="""\b
Examples:
  source <(minibroker completion bash)
  minibroker completion bash > ~/.local/share/bash-completion/completions/minibroker
  minibroker completion zsh > ~/.zfunc/_minibroker
  minibroker completion fish > ~/.config/fish/completions/minibroker.fish
"""
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell.

    bash needs version 4.4 or newer. The script completes names of topics, groups and brokers from the cluster of -b or
    MINIBROKER_BOOTSTRAP_SERVER, and waits for it at most one second.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415  the commands import this module

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    of_shell = kind(click.get_current_context().find_root().command, {}, "minibroker", VARIABLE)
    click.echo(of_shell.source_template % of_shell.source_vars())  # .source() would run bash for its version first
