"""`minibroker completion`, and the completion of names of topics, groups, brokers and configs in a shell.

The names come from the cluster of the command line. A shell calls this at each press of Tab: if no broker answers within
a second, there are no names and no error.
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
VARIABLE = "_MINIBROKER_COMPLETE"  #: the variable that makes click complete
SHELLS = ("bash", "zsh", "fish")


def topic_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete topics; internal ones only after an underscore."""
    return _matching(_names_of(ctx, "topics"), incomplete)


def group_ids(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete groups of all types."""
    return _matching(_names_of(ctx, "groups"), incomplete)


def entities(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete entities of the type that precedes them on the command line."""
    kind = str(ctx.params.get("kind"))
    names = _names_of(ctx, kind)
    if kind == "groups":
        names |= _names_of(ctx, "groups with configs")
    return _matching(names, incomplete)


def config_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete `NAME=` for configs of the entity type on the command line; topics by default."""
    return [f"{name}=" for name in _matching(_configs(ctx), incomplete)]


def deletable_config_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of configs."""
    return _matching(_configs(ctx), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and (incomplete or not name.startswith("_")))


def _configs(ctx: click.Context) -> Iterable[str]:
    from minibroker.config import broker_properties, client_metrics_properties, group_properties, topic_properties  # noqa: PLC0415  only completions need them

    properties = {
        "topics": topic_properties.TOPIC_PROPERTIES,
        "brokers": broker_properties.BROKER_PROPERTIES,
        "groups": group_properties.GROUP_PROPERTIES,
        "client-metrics": client_metrics_properties.CLIENT_METRICS_PROPERTIES,
    }
    kind = ctx.params.get("kind", "topics") or next(iter(ctx.args), "")  # click parses nothing while an option lacks its value
    return [name for name, prop in properties.get(kind, {}).items() if prop.is_dynamic]


def _names_of(ctx: click.Context, kind: str) -> set[str]:
    """Return names of a kind from the cluster; empty if it does not answer."""
    from minibroker.client import configs, groups  # noqa: PLC0415  only completions need them

    bootstrap = ctx.params.get("bootstrap_server") or os.environ.get("MINIBROKER_BOOTSTRAP_SERVER") or "localhost:9092"
    try:
        with Client(str(bootstrap), timeout_ms=_TIMEOUT_MS, connect=client_connect(ctx)) as client:
            if kind == "topics":
                return {topic.name or "" for topic in client.metadata(None, client.deadline()).topics}
            if kind == "groups":
                return {each.group for each in groups.list_groups(client)}
            if kind in {"brokers", "broker-loggers"}:
                client.metadata([], client.deadline())
                return {str(node_id) for node_id in client.brokers}
            return set(configs.list_entities(client, "groups" if kind == "groups with configs" else kind))
    except (ClientError, ConfigurationError, KafkaError, WireError, OSError):
        return set()


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

    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.UsageError(f"no completion for {shell}")
    complete = completion_class(click.get_current_context().find_root().command, {}, "minibroker", VARIABLE)
    click.echo(complete.source_template % complete.source_vars())  # .source() would first run bash to get its version
