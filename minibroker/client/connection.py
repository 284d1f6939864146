"""One connection to one broker. It negotiates versions, then sends each request at the highest common one.

Callers may send requests before earlier ones are answered. The broker answers in the order of the requests. `ask` may be called
in between: it keeps the answers to earlier requests for `receive`. After any failure, a connection is closed and stays closed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import minibroker
from minibroker.client.errors import BrokerUnreachable, ClientError, NotAKafkaBroker, UnsupportedByBroker, check
from minibroker.client.transport import Address, Deadline, SocketTransport, Transport
from minibroker.errors import UnsupportedVersion, WireError
from minibroker.schemas import k18_api_versions
from minibroker.wire.api import Api, api_of
from minibroker.wire.compiled import decode_all, encoder
from minibroker.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
    with_size,
)
from minibroker.wire.schema import Buffer

CLIENT_ID = "minibroker-cli"

#: API key -> lowest version that this client sends, although brokers may serve older ones: the client writes and reads only message
#: format v2, and requests one offset at a time
LEAST = {0: 3, 1: 4, 2: 1}


class Connection:
    """Sends requests to one broker and receives the answers."""

    __slots__ = (
        "_arrived",
        "_client_id",
        "_correlation_id",
        "_expected",
        "_transport",
        "address",
        "api_versions",
        "closed",
        "explain",
        "renew",
        "renew_at_s",
    )

    def __init__(self, transport: Transport, address: Address, client_id: str = CLIENT_ID) -> None:
        """Take a connected transport; `negotiate` must follow."""
        self.address = address
        self.closed = False
        #: returns why the broker closed the connection at the first request; None if the reason is unknown
        self.explain: Callable[[BrokerUnreachable], ClientError | None] | None = None
        self.renew: Callable[[Deadline], None] | None = None  #: logs in again; set if the SASL session expires
        self.renew_at_s = 0.0  #: by time.monotonic
        self.api_versions = k18_api_versions.Response(error_code=0, api_keys=[])
        self._transport = transport
        self._client_id = client_id
        self._correlation_id = 0
        self._arrived: deque[Any] = deque()  # answers that `receive` has not returned yet
        self._expected: deque[tuple[Api, int, int]] = deque()  # api, version, correlation_id of requests not yet answered

    def negotiate(self, deadline: Deadline) -> None:
        """Request the broker's versions. A broker that does not know our request's version answers with its own versions (KIP-511)."""
        request = k18_api_versions.Request(client_software_name="minibroker", client_software_version=minibroker.__version__)
        newest = k18_api_versions.VERSIONS[1]
        self._send(api_of(k18_api_versions), newest, request, deadline)
        response = self.receive(deadline)
        if response.error_code == UnsupportedVersion.code:
            known = {api.api_key: api.max_version for api in response.api_keys}
            self._send(api_of(k18_api_versions), min(newest, known.get(k18_api_versions.API_KEY, 0)), request, deadline)
            response = self.receive(deadline)
        check(response.error_code, f"{self.address}: ApiVersions")
        self.api_versions = response

    def version_for(self, schema: ModuleType, most: int | None = None) -> int:
        """Return the highest version that both sides know, not above `most`; UnsupportedByBroker if there is none."""
        low: int
        high: int
        low, high = schema.VERSIONS
        low = max(low, LEAST.get(schema.API_KEY, low))
        if most is not None:
            high = min(high, most)
        name = api_of(schema).name
        for api in self.api_versions.api_keys:
            if api.api_key == schema.API_KEY:
                if api.max_version < low or api.min_version > high:
                    broker_range = f"{api.min_version} to {api.max_version}"
                    raise UnsupportedByBroker(f"{self.address} serves {name} {broker_range}, but {low} to {high} is needed")
                return min(high, api.max_version)
        raise UnsupportedByBroker(f"{self.address} does not serve {name}: see 'minibroker api-versions -b {self.address}'")

    def ask(self, schema: ModuleType, request: Any, deadline: Deadline, *, most: int | None = None) -> Any:
        """Send one request and wait for its answer, the schema's Response."""
        self.send(schema, request, deadline, most=most)
        while len(self._expected) > 1:
            self._arrived.append(self._receive(deadline))
        return self._receive(deadline)

    def send(self, schema: ModuleType, request: Any, deadline: Deadline, *, most: int | None = None, answered: bool = True) -> None:
        """Send a request; `answered=False` for Produce with acks=0, which has no answer."""
        if self.renew is not None and time.monotonic() >= self.renew_at_s:
            while self._expected:
                self._arrived.append(self._receive(deadline))
            self._renew(deadline)
        version = self.version_for(schema, most)
        self._send(api_of(schema), version, request, deadline, answered=answered)

    def receive(self, deadline: Deadline) -> Any:
        """Return the answer to the oldest unanswered request."""
        return self._arrived.popleft() if self._arrived else self._receive(deadline)

    def _receive(self, deadline: Deadline) -> Any:
        if self.closed:
            raise BrokerUnreachable(f"the connection to {self.address} was closed")
        api, version, correlation_id = self._expected.popleft()
        try:
            frame = self._transport.receive(deadline)
            answer = decode_response(api, version, correlation_id, frame)
        except BrokerUnreachable as error:
            self.close()
            explanation = None if self.explain is None else self.explain(error)
            if explanation is None:
                raise
            raise explanation from error
        except WireError as error:
            self.close()
            raise NotAKafkaBroker(
                f"{self.address} answers {api.name} v{version} with bytes that are not Kafka's protocol: {error}"
            ) from error
        except BaseException:
            self.close()
            raise
        self.explain = None
        return answer

    def _renew(self, deadline: Deadline) -> None:
        """Log in again. `receive` still returns the answers that arrived before."""
        arrived, self._arrived = self._arrived, deque()
        renew, self.renew = self.renew, None
        if renew is not None:
            renew(deadline)
        self._arrived = arrived

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        self.closed = True
        self._transport.close()

    def _send(self, api: Api, version: int, request: Any, deadline: Deadline, *, answered: bool = True) -> None:
        if self.closed:
            raise BrokerUnreachable(f"the connection to {self.address} was closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        chunks = encode_request(api, version, self._correlation_id, self._client_id, request)
        try:
            self._transport.send(chunks, deadline)
        except BaseException:
            self.close()
            raise
        if answered:
            self._expected.append((api, version, self._correlation_id))


Connect = Callable[[Address, Deadline], Connection]


def connect(address: Address, deadline: Deadline, client_id: str = CLIENT_ID) -> Connection:
    """Connect over TCP, without TLS and SASL, and negotiate."""
    connection = Connection(SocketTransport(address, deadline), address, client_id)
    try:
        connection.negotiate(deadline)
    except BrokerUnreachable as error:
        connection.close()
        raise BrokerUnreachable(f"{error} on ApiVersions: is it a Kafka listener, and one without TLS or SASL?") from error
    except ClientError:
        connection.close()
        raise
    return connection


def encode_request(api: Api, version: int, correlation_id: int, client_id: str, request: Any) -> list[Buffer]:
    """Encode a request as a frame in chunks, its size first; EncodeError for a value that the version cannot carry."""
    header = RequestHeader(api_key=api.key, api_version=version, correlation_id=correlation_id, client_id=client_id)
    encoded_header = encode_request_header(header, request_header_version(api, version))
    return with_size([encoded_header, *encoder(api.Request, version, api.flexible(version))(request)])


def decode_response(api: Api, version: int, correlation_id: int, frame: memoryview) -> Any:
    """Decode a response from a frame without its size; WireError for invalid bytes, and for the response to another request.

    A broker that does not know the version of an ApiVersions request answers in version 0 (KIP-511).
    """
    answered_id, position = decode_response_header(frame, response_header_version(api, version))
    if answered_id != correlation_id:
        raise WireError(f"an answer to request {answered_id}, expected one to {correlation_id}")
    try:
        return decode_all(api.Response, frame, position, version, api.flexible(version))
    except WireError:
        if api.name != "ApiVersions" or version == 0:
            raise
        return decode_all(api.Response, frame, position, 0, api.flexible(0))


_NAMES = """
Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown OffsetCommit OffsetFetch
FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake ApiVersions CreateTopics
DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers
TxnOffsetCommit DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs DescribeLogDirs
SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken
DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments ListPartitionReassignments OffsetDelete
DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch
EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot DescribeCluster DescribeProducers
BrokerRegistration BrokerHeartbeat UnregisterBroker DescribeTransactions ListTransactions AllocateProducerIds
ConsumerGroupHeartbeat ConsumerGroupDescribe ControllerRegistration GetTelemetrySubscriptions PushTelemetry
AssignReplicasToDirs ListConfigResources DescribeTopicPartitions ShareGroupHeartbeat ShareGroupDescribe ShareFetch
ShareAcknowledge AddRaftVoter RemoveRaftVoter UpdateRaftVoter InitializeShareGroupState ReadShareGroupState
WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe
DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets
"""

#: names of Kafka 4.3.1 (org.apache.kafka.common.protocol.ApiKeys), indexed by API key, including APIs that we neither serve nor send
API_NAMES = tuple(_NAMES.split())


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API, or `Api93` for a key that is newer than this table."""
    return API_NAMES[api_key] if 0 <= api_key < len(API_NAMES) else f"Api{api_key}"
