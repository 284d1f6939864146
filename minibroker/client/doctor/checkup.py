"""Run all checks: bootstrap addresses, advertised addresses, then the state of the brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from minibroker.client.connection import Connection
from minibroker.client.doctor import NOTE, OK, PROBLEM, Finding, checks
from minibroker.client.doctor.addresses import (
    AdvertisedListener,
    Network,
    Outcome,
    ReachResult,
    check_advertised,
    check_other_listener,
    reach,
    suggest_listener,
)
from minibroker.client.errors import ClientError, describe
from minibroker.client.transport import Address, Deadline
from minibroker.config.listeners import is_loopback
from minibroker.errors import ClusterAuthorizationFailed, KafkaError


class Checkup:
    """The checks of one cluster. `timeout_ms` is the limit of each connection and each request."""

    def __init__(self, network: Network, timeout_ms: int) -> None:
        self._network = network
        self._timeout_ms = timeout_ms
        self._reached: dict[Address, ReachResult] = {}
        self._is_limited = False  #: whether the user may not see all of the cluster

    def findings(self, bootstrap: Sequence[Address]) -> Iterator[Finding]:
        """Yield findings as the checks run."""
        try:
            yield from self._findings(bootstrap)
        finally:
            for reached in self._reached.values():
                if reached.connection is not None:
                    reached.connection.close()

    def _findings(self, bootstrap: Sequence[Address]) -> Iterator[Finding]:
        for address in bootstrap:
            yield self._check_bootstrap(self._reach(address))
        serving = {address: self._reach(address) for address in bootstrap if self._reach(address).outcome is Outcome.SERVES}
        yield from checks.bootstraps({address: reached.cluster_id for address, reached in serving.items()})
        if serving:
            yield from self._cluster([*serving.values()])

    def _cluster(self, bootstraps: Sequence[ReachResult]) -> Iterator[Finding]:
        """Check the cluster that one broker describes; `bootstraps` are the bootstrap addresses that work."""
        first = bootstraps[0]
        if first.metadata is None or first.connection is None:
            return
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in first.metadata.brokers}
        if not brokers:
            text = "its metadata has no broker, not even the one that answered"
            yield Finding(PROBLEM, "cluster", text, "The broker may be starting: run the doctor again")
            return
        bootstrap_of = self._bootstrap_of(bootstraps, brokers)
        connections: dict[int, Connection] = {}
        for node_id, listed in sorted(brokers.items()):
            reached = self._reach(listed)
            bootstrap = bootstrap_of.get(node_id)
            connection = reached.connection if self._serves(listed, first.cluster_id) else (bootstrap.connection if bootstrap else None)
            configs: dict[str, str | None] = {}
            problems: list[Finding] = []
            if connection is not None:
                connections[node_id] = connection
                configs, problems = self._configs(node_id, listed, connection)
            listeners = checks.listeners_of(configs)
            finding = check_advertised(node_id, bootstrap.address if bootstrap else None, reached, first.cluster_id, listeners)
            better = next((each for each in listeners if each.address != listed and self._serves(each.address, first.cluster_id)), None)
            yield suggest_listener(finding, better) if finding.severity == PROBLEM and better else finding
            yield from problems
            yield from self._other_listeners(node_id, listed, listeners, first.cluster_id)
            yield from checks.replicas(node_id, configs, len(brokers))
        yield from checks.versions(connections)
        for node_id, connection in sorted(connections.items()):
            yield from self._run(checks.log_dirs, node_id, connection)
        yield from self._run(partial(checks.partitions, first.connection, is_limited=self._is_limited))

    def _bootstrap_of(self, bootstraps: Sequence[ReachResult], brokers: Mapping[int, Address]) -> dict[int, ReachResult]:
        """Return the bootstrap address that leads to each broker.

        With several brokers, the broker at an address is the one that describes its own configuration there.
        """
        if len(brokers) == 1:
            return dict.fromkeys(brokers, bootstraps[0])
        found: dict[int, ReachResult] = {}
        for reached in bootstraps:
            listed = (node_id for node_id, address in brokers.items() if address == reached.address)
            node_id = next(listed, None)
            if node_id is None and reached.connection is not None:
                node_id = self._node_at(reached.connection, sorted(brokers))
            if node_id is not None:
                found.setdefault(node_id, reached)
        return found

    def _node_at(self, connection: Connection, node_ids: Iterable[int]) -> int | None:
        for node_id in node_ids:
            try:
                checks.configs_of(connection, node_id, self._deadline())
            except KafkaError:
                continue
            except ClientError:
                return None
            return node_id
        return None

    def _configs(self, node_id: int, listed: Address, connection: Connection) -> tuple[dict[str, str | None], list[Finding]]:
        try:
            return checks.configs_of(connection, node_id, self._deadline()), []
        except ClusterAuthorizationFailed:
            return {}, [self._not_allowed(f"read the configuration of broker {node_id}", "DESCRIBE_CONFIGS")]
        except KafkaError as error:
            advice = "Each broker needs its own address: check which port is mapped to which"
            text = f"another broker seems to answer at {listed}: {describe(error)}"
            return {}, [Finding(PROBLEM, f"broker {node_id}", text, advice)]
        except ClientError as error:
            return {}, [Finding(NOTE, "cluster", f"could not read the configuration of broker {node_id}: {describe(error)}")]

    def _other_listeners(
        self, node_id: int, listed: Address, listeners: Iterable[AdvertisedListener], cluster_id: str | None
    ) -> Iterator[Finding]:
        for listener in listeners:
            if listener.address != listed:
                yield check_other_listener(node_id, listener, self._reach(listener.address), cluster_id)

    def _not_allowed(self, action: str, operation: str) -> Finding:
        self._is_limited = True
        advice = f"For this check, give the user the ACL 'USER allow {operation} CLUSTER'"
        return Finding(NOTE, "cluster", f"this user may not {action}", advice)

    def _run(self, check: Callable[..., Iterator[Finding]], *arguments: Any) -> Iterator[Finding]:
        """Run one check with its own deadline. A failure is a finding, and the next checks run."""
        try:
            yield from check(*arguments, self._deadline())
        except ClusterAuthorizationFailed:
            yield self._not_allowed("see log directories", "DESCRIBE")
        except (ClientError, KafkaError) as error:
            yield Finding(NOTE, "cluster", describe(error))

    def _check_bootstrap(self, reached: ReachResult) -> Finding:
        """Check a bootstrap address."""
        subject = str(reached.address)
        if reached.outcome is Outcome.SERVES:
            name = reached.address.host
            found = ",".join(each for each in reached.ip_addresses if each != name)
            return Finding(OK, subject, f"answers{f' ({found})' if found else ''}, cluster {reached.cluster_id}")
        return Finding(PROBLEM, subject, self._problem(reached), self._advice(reached))

    def _problem(self, reached: ReachResult) -> str:
        return {
            Outcome.UNKNOWN_NAME: f"the name {reached.address.host!r} is unknown here: {reached.message}",
            Outcome.REFUSED: "nothing listens there",
            Outcome.SILENT: f"no answer: {reached.message}",
            Outcome.SECURITY: f"wrong {reached.part}: {reached.message}",
            Outcome.NOT_KAFKA: "something listens there, but does not answer as a Kafka listener without TLS and SASL",
        }.get(reached.outcome, reached.message)

    def _advice(self, reached: ReachResult) -> str:
        if reached.outcome is Outcome.UNKNOWN_NAME:
            return (
                "Only containers of the same network know the names of compose services: from the host, use localhost and the mapped port"
            )
        if reached.outcome is Outcome.REFUSED:
            if self._network.is_container and is_loopback(reached.address.host):
                return f"{reached.address.host} is this container itself: use the name of the broker's container, and the port in it"
            return "Is the broker up, and is that its port? A container's port must be mapped: docker run -p 9092:9092"
        if reached.outcome is Outcome.SILENT:
            return "A firewall, a security group, or an address of a network that cannot be reached from here"
        if reached.outcome is Outcome.NOT_KAFKA:
            return "Another service, a TLS or SASL listener, or a mapped port whose container does not listen (yet)"
        return ""

    def _reach(self, address: Address) -> ReachResult:
        """Connect to an address once; return the earlier result afterwards."""
        found = self._reached.get(address)
        if found is None:
            found = self._reached[address] = reach(address, self._network, self._timeout_ms)
        return found

    def _serves(self, address: Address, cluster_id: str | None) -> bool:
        reached = self._reach(address)
        return reached.outcome is Outcome.SERVES and reached.cluster_id == cluster_id

    def _deadline(self) -> Deadline:
        return Deadline(self._timeout_ms)
