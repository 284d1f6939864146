"""What a health check asks and says. It knows nothing of click, whose import costs as much as all the rest of a check.

The commands have it with all their options; `quick` is for what health checks are mostly given, none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from minibroker.client.address import Address
from minibroker.client.deadline import Deadline
from minibroker.client.errors import ClientError, describe
from minibroker.client.health import check_health
from minibroker.errors import ConfigurationError, KafkaError

TIMEOUT_S = 5.0
#: where to ask a listener that is bound to every interface
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def said_by(addresses: Sequence[Address], timeout_s: float) -> str:
    """One line for brokers that all serve; raises what `check_health` raises for the first that does not."""
    deadline = Deadline(int(timeout_s * 1000))
    found = [check_health(address, deadline) for address in addresses]
    one = found[0]
    directories = "1 log directory" if one.log_dir_count == 1 else f"{one.log_dir_count} log directories"
    return f"healthy: {', '.join(str(each.address) for each in found)}, cluster {one.cluster_id}, {directories} online"


def own_listeners(properties: Mapping[str, str]) -> list[Address]:
    """Where a broker with these properties listens on this machine; ConfigurationError where nobody can know."""
    from minibroker.config.listeners import listeners_of  # noqa: PLC0415  not needed where an address is given

    listeners = listeners_of(properties)
    for listener in listeners:
        if listener.port == 0:
            raise ConfigurationError(f"listeners: {listener} takes a free port, which nobody can know from outside: give it with -b")
    return [Address(_LOOPBACK.get(listener.host, listener.host), listener.port) for listener in listeners]


def quick(words: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """The exit code of `health` and `container --health`, as their commands would end; None where click must read the options."""
    if list(words) == ["health"] and not environment.get("MINIBROKER_BOOTSTRAP_SERVER"):
        properties = _of_environment
    elif list(words) == ["container", "--health"] and not environment.get("MINIBROKER_SERVE_OPTIONS"):
        properties = _of_container
    else:
        return None
    try:
        print(said_by(own_listeners(properties(environment)), TIMEOUT_S))
    except (ClientError, KafkaError, ConfigurationError, OSError) as error:
        print(f"Error: {' '.join(describe(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    from minibroker.config import sources  # noqa: PLC0415  as above

    return sources.from_environment(environment)


def _of_container(environment: Mapping[str, str]) -> dict[str, str]:
    from minibroker.cli.container.settings import CONFIG_FILE, image_environment, own_address  # noqa: PLC0415  only what is run is imported
    from minibroker.config import sources  # noqa: PLC0415  as above

    from_file = {}
    if os.path.isfile(CONFIG_FILE):  # noqa: PTH113  pathlib costs more than it does
        from pathlib import Path  # noqa: PLC0415  only a file pays for it

        from_file = sources.from_file(Path(CONFIG_FILE))
    own = image_environment(environment, from_file, own_address())
    return from_file | sources.from_environment({**environment, **own})
