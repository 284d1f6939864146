"""kafka-broker-api-versions: what compose files ask to know whether a broker is there."""

from __future__ import annotations

from collections.abc import Sequence

from minibroker.cli.api_versions import apis_of
from minibroker.cli.kafka_tools.arguments import add_bootstrap, client_of, parser


def run(arguments: Sequence[str]) -> int:
    """Print the APIs of every broker, with the version that our own client would use."""
    made = parser("kafka-broker-api-versions", "This tool helps to retrieve broker version information.")
    add_bootstrap(made)
    with client_of(made.parse_args(arguments)) as client:
        brokers = sorted(client.metadata([]).brokers, key=lambda broker: broker.node_id)
        for broker in brokers:
            answer = client.to_node(broker.node_id, client.deadline()).api_versions
            lines = []
            for row in apis_of(answer):
                low, high = row["min_version"], row["max_version"]
                usable = row["usable"] if row["usable"] is not None else "none"
                lines.append(f"\t{row['name']}({row['api_key']}): {low if low == high else f'{low} to {high}'} [usable: {usable}]")
            told = ",\n".join(lines)
            print(f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'} isFenced: false) -> (\n{told}\n)")
    return 0
