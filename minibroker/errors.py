"""A class for each Kafka error code, and the errors that are not answers.

    KafkaError           becomes an error code in the response
    WireError            closes the connection
    CorruptLogError      takes its partition offline; the others continue
    ConfigurationError   ends the start with one line for the operator

Codes, names and `retriable` are those of org.apache.kafka.common.protocol.Errors in Kafka 4.3.1 (tests compare them with its jar's).
"""

from __future__ import annotations

from typing import ClassVar, Final

NONE = 0  #: the code of success, which has no class

#: Longer messages of a KafkaError are cut. They may repeat names of up to 32,767 bytes, which is the limit of the whole string.
MAX_MESSAGE_LETTERS: Final = 4096

BY_CODE: dict[int, type[KafkaError]] = {}


class WireError(Exception):
    """The peer sent bytes that violate the protocol. The connection is closed without an answer."""


class CorruptLogError(Exception):
    """The files of a partition cannot be trusted. The partition goes offline and answers KAFKA_STORAGE_ERROR."""


class ConfigurationError(Exception):
    """A configuration that cannot be served. The message is one line for the operator."""


class KafkaError(Exception):
    """An answer with an error code. `str(error)` is the message for the client: that of the exception, else Kafka's."""

    code: ClassVar[int]  #: int16 on the wire
    name: ClassVar[str]  #: as in Kafka's enum: UNKNOWN_TOPIC_OR_PARTITION
    retriable: ClassVar[bool]  #: clients may send the same request again
    record_errors: tuple[tuple[int, str], ...] = ()  #: of Produce: (batch_index, batch_index_error_message) of the invalid records

    def __init_subclass__(cls, *, code: int, retriable: bool = False) -> None:
        """Register the class in BY_CODE, and derive its name in Kafka's spelling."""
        cls.code, cls.retriable = code, retriable
        cls.name = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in cls.__name__)[1:]
        BY_CODE[code] = cls

    def __str__(self) -> str:
        if not self.args:
            return self.__doc__ or self.name
        message = super().__str__()
        return message if len(message) <= MAX_MESSAGE_LETTERS else f"{message[:MAX_MESSAGE_LETTERS]}..."

    @property
    def given_message(self) -> str | None:
        """The message, or None if it is Kafka's, which clients derive from the code."""
        return str(self) if self.args else None


class UnknownServerError(KafkaError, code=-1):
    """The server experienced an unexpected error when processing the request."""


class OffsetOutOfRange(KafkaError, code=1):
    """The requested offset is not within the range of offsets maintained by the server."""


class CorruptMessage(KafkaError, code=2, retriable=True):
    """This message has failed its CRC checksum, exceeds the valid size, lacks the key of a compacted topic, or is otherwise corrupt."""


class UnknownTopicOrPartition(KafkaError, code=3, retriable=True):
    """This server does not host this topic-partition."""


class InvalidFetchSize(KafkaError, code=4):
    """The requested fetch size is invalid."""


class LeaderNotAvailable(KafkaError, code=5, retriable=True):
    """There is no leader for this topic-partition as we are in the middle of a leadership election."""


class NotLeaderOrFollower(KafkaError, code=6, retriable=True):
    """This broker is not the leader (for what only leaders do) or not a replica (for the rest) of the topic partition."""


class RequestTimedOut(KafkaError, code=7, retriable=True):
    """The request timed out."""


class BrokerNotAvailable(KafkaError, code=8):
    """The broker is not available."""


class ReplicaNotAvailable(KafkaError, code=9, retriable=True):
    """The replica is not available for the requested topic-partition."""


class MessageTooLarge(KafkaError, code=10):
    """The request included a message larger than the max message size the server will accept."""


class StaleControllerEpoch(KafkaError, code=11):
    """The controller moved to another broker."""


class OffsetMetadataTooLarge(KafkaError, code=12):
    """The metadata field of the offset request was too large."""


class NetworkException(KafkaError, code=13, retriable=True):
    """The server disconnected before a response was received."""


class CoordinatorLoadInProgress(KafkaError, code=14, retriable=True):
    """The coordinator is loading and hence can't process requests."""


class CoordinatorNotAvailable(KafkaError, code=15, retriable=True):
    """The coordinator is not available."""


class NotCoordinator(KafkaError, code=16, retriable=True):
    """This is not the correct coordinator."""


class InvalidTopicException(KafkaError, code=17):
    """The request attempted to perform an operation on an invalid topic."""


class RecordListTooLarge(KafkaError, code=18):
    """The request included message batch larger than the configured segment size on the server."""


class NotEnoughReplicas(KafkaError, code=19, retriable=True):
    """Messages are rejected since there are fewer in-sync replicas than required."""


class NotEnoughReplicasAfterAppend(KafkaError, code=20, retriable=True):
    """Messages are written to the log, but to fewer in-sync replicas than required."""


class InvalidRequiredAcks(KafkaError, code=21):
    """Produce request specified an invalid value for required acks."""


class IllegalGeneration(KafkaError, code=22):
    """Specified group generation id is not valid."""


class InconsistentGroupProtocol(KafkaError, code=23):
    """The member's protocols do not fit those of the group, or the first member came with an empty protocol type or list."""


class InvalidGroupId(KafkaError, code=24):
    """The group id is invalid."""


class UnknownMemberId(KafkaError, code=25):
    """The coordinator is not aware of this member."""


class InvalidSessionTimeout(KafkaError, code=26):
    """The session timeout is not within group.min.session.timeout.ms and group.max.session.timeout.ms."""


class RebalanceInProgress(KafkaError, code=27):
    """The group is rebalancing, so a rejoin is needed."""


class InvalidCommitOffsetSize(KafkaError, code=28):
    """The committing offset data size is not valid."""


class TopicAuthorizationFailed(KafkaError, code=29):
    """Topic authorization failed."""


class GroupAuthorizationFailed(KafkaError, code=30):
    """Group authorization failed."""


class ClusterAuthorizationFailed(KafkaError, code=31):
    """Cluster authorization failed."""


class InvalidTimestamp(KafkaError, code=32):
    """The timestamp of the message is out of acceptable range."""


class UnsupportedSaslMechanism(KafkaError, code=33):
    """The broker does not support the requested SASL mechanism."""


class IllegalSaslState(KafkaError, code=34):
    """Request is not valid given the current SASL state."""


class UnsupportedVersion(KafkaError, code=35):
    """The version of API is not supported."""


class TopicAlreadyExists(KafkaError, code=36):
    """Topic with this name already exists."""


class InvalidPartitions(KafkaError, code=37):
    """Number of partitions is below 1."""


class InvalidReplicationFactor(KafkaError, code=38):
    """Replication factor is below 1 or larger than the number of available brokers."""


class InvalidReplicaAssignment(KafkaError, code=39):
    """Replica assignment is invalid."""


class InvalidConfig(KafkaError, code=40):
    """Configuration is invalid."""


class NotController(KafkaError, code=41, retriable=True):
    """This is not the correct controller for this cluster."""


class InvalidRequest(KafkaError, code=42):
    """The request is malformed or was sent to an incompatible broker."""


class UnsupportedForMessageFormat(KafkaError, code=43):
    """The message format version on the broker does not support the request."""


class PolicyViolation(KafkaError, code=44):
    """Request parameters do not satisfy the configured policy."""


class OutOfOrderSequenceNumber(KafkaError, code=45):
    """The broker received an out of order sequence number."""


class DuplicateSequenceNumber(KafkaError, code=46):
    """The broker received a duplicate sequence number."""


class InvalidProducerEpoch(KafkaError, code=47):
    """Producer attempted to produce with an old epoch."""


class InvalidTxnState(KafkaError, code=48):
    """The producer attempted a transactional operation in an invalid state."""


class InvalidProducerIdMapping(KafkaError, code=49):
    """The producer attempted to use a producer id which is not currently assigned to its transactional id."""


class InvalidTransactionTimeout(KafkaError, code=50):
    """The transaction timeout is larger than transaction.max.timeout.ms."""


class ConcurrentTransactions(KafkaError, code=51, retriable=True):
    """The producer attempted to update a transaction while another concurrent operation on the same transaction was ongoing."""


class TransactionCoordinatorFenced(KafkaError, code=52):
    """The coordinator that sends a WriteTxnMarkers is no longer the coordinator of the producer id."""


class TransactionalIdAuthorizationFailed(KafkaError, code=53):
    """Transactional Id authorization failed."""


class SecurityDisabled(KafkaError, code=54):
    """Security features are disabled."""


class OperationNotAttempted(KafkaError, code=55):
    """The broker did not attempt this operation, because another one of the batch failed."""


class KafkaStorageError(KafkaError, code=56, retriable=True):
    """Disk error when trying to access log file on the disk."""


class LogDirNotFound(KafkaError, code=57):
    """The user-specified log directory is not found in the broker config."""


class SaslAuthenticationFailed(KafkaError, code=58):
    """SASL Authentication failed."""


class UnknownProducerId(KafkaError, code=59):
    """The broker knows nothing of this producer id, for instance because its records were deleted by retention."""


class ReassignmentInProgress(KafkaError, code=60):
    """A partition reassignment is in progress."""


class DelegationTokenAuthDisabled(KafkaError, code=61):
    """Delegation Token feature is not enabled."""


class DelegationTokenNotFound(KafkaError, code=62):
    """Delegation Token is not found on server."""


class DelegationTokenOwnerMismatch(KafkaError, code=63):
    """Specified Principal is not valid Owner/Renewer."""


class DelegationTokenRequestNotAllowed(KafkaError, code=64):
    """Delegation tokens are refused on PLAINTEXT and 1-way SSL channels and on channels authenticated by such a token."""


class DelegationTokenAuthorizationFailed(KafkaError, code=65):
    """Delegation Token authorization failed."""


class DelegationTokenExpired(KafkaError, code=66):
    """Delegation Token is expired."""


class InvalidPrincipalType(KafkaError, code=67):
    """Supplied principalType is not supported."""


class NonEmptyGroup(KafkaError, code=68):
    """The group is not empty."""


class GroupIdNotFound(KafkaError, code=69):
    """The group id does not exist."""


class FetchSessionIdNotFound(KafkaError, code=70, retriable=True):
    """The fetch session ID was not found."""


class InvalidFetchSessionEpoch(KafkaError, code=71, retriable=True):
    """The fetch session epoch is invalid."""


class ListenerNotFound(KafkaError, code=72, retriable=True):
    """There is no listener on the leader broker that matches the listener on which metadata request was processed."""


class TopicDeletionDisabled(KafkaError, code=73):
    """Topic deletion is disabled."""


class FencedLeaderEpoch(KafkaError, code=74, retriable=True):
    """The leader epoch in the request is older than the epoch on the broker."""


class UnknownLeaderEpoch(KafkaError, code=75, retriable=True):
    """The leader epoch in the request is newer than the epoch on the broker."""


class UnsupportedCompressionType(KafkaError, code=76):
    """The requesting client does not support the compression type of given partition."""


class StaleBrokerEpoch(KafkaError, code=77):
    """Broker epoch has changed."""


class OffsetNotAvailable(KafkaError, code=78, retriable=True):
    """The high watermark has not caught up after an election, so offsets might seem to go backwards."""


class MemberIdRequired(KafkaError, code=79):
    """The group member needs to have a valid member id before actually entering a consumer group."""


class PreferredLeaderNotAvailable(KafkaError, code=80, retriable=True):
    """The preferred leader was not available."""


class GroupMaxSizeReached(KafkaError, code=81):
    """The group has reached its maximum size."""


class FencedInstanceId(KafkaError, code=82):
    """Another consumer with the same group.instance.id has registered with a different member id."""


class EligibleLeadersNotAvailable(KafkaError, code=83, retriable=True):
    """Eligible topic partition leaders are not available."""


class ElectionNotNeeded(KafkaError, code=84, retriable=True):
    """Leader election not needed for topic partition."""


class NoReassignmentInProgress(KafkaError, code=85):
    """No partition reassignment is in progress."""


class GroupSubscribedToTopic(KafkaError, code=86):
    """Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."""


class InvalidRecord(KafkaError, code=87):
    """This record has failed the validation on broker and hence will be rejected."""


class UnstableOffsetCommit(KafkaError, code=88, retriable=True):
    """There are unstable offsets that need to be cleared."""


class ThrottlingQuotaExceeded(KafkaError, code=89, retriable=True):
    """The throttling quota has been exceeded."""


class ProducerFenced(KafkaError, code=90):
    """There is a newer producer with the same transactionalId which fences the current one."""


class ResourceNotFound(KafkaError, code=91):
    """A request illegally referred to a resource that does not exist."""


class DuplicateResource(KafkaError, code=92):
    """A request illegally referred to the same resource twice."""


class UnacceptableCredential(KafkaError, code=93):
    """Requested credential would not meet criteria for acceptability."""


class InconsistentVoterSet(KafkaError, code=94):
    """The sender or the recipient of a voter-only request is not one of the expected voters."""


class InvalidUpdateVersion(KafkaError, code=95):
    """The given update version was invalid."""


class FeatureUpdateFailed(KafkaError, code=96):
    """Unable to update finalized features due to an unexpected server error."""


class PrincipalDeserializationFailure(KafkaError, code=97):
    """Request principal deserialization failed during forwarding: the cluster's security set-up is wrong."""


class SnapshotNotFound(KafkaError, code=98):
    """Requested snapshot was not found."""


class PositionOutOfRange(KafkaError, code=99):
    """Requested position is not greater than or equal to zero, and less than the size of the snapshot."""


class UnknownTopicId(KafkaError, code=100, retriable=True):
    """This server does not host this topic ID."""


class DuplicateBrokerRegistration(KafkaError, code=101):
    """This broker ID is already in use."""


class BrokerIdNotRegistered(KafkaError, code=102):
    """The given broker ID was not registered."""


class InconsistentTopicId(KafkaError, code=103, retriable=True):
    """The log's topic ID did not match the topic ID in the request."""


class InconsistentClusterId(KafkaError, code=104):
    """The clusterId in the request does not match that found on the server."""


class TransactionalIdNotFound(KafkaError, code=105):
    """The transactionalId could not be found."""


class FetchSessionTopicIdError(KafkaError, code=106, retriable=True):
    """The fetch session encountered inconsistent topic ID usage."""


class IneligibleReplica(KafkaError, code=107):
    """The new ISR contains at least one ineligible replica."""


class NewLeaderElected(KafkaError, code=108):
    """The AlterPartition request successfully updated the partition state but the leader has changed."""


class OffsetMovedToTieredStorage(KafkaError, code=109):
    """The requested offset is moved to tiered storage."""


class FencedMemberEpoch(KafkaError, code=110):
    """The coordinator fenced the member epoch: the member must abandon all its partitions and rejoin."""


class UnreleasedInstanceId(KafkaError, code=111):
    """The instance ID is still used by another member in the consumer group. That member must leave first."""


class UnsupportedAssignor(KafkaError, code=112):
    """The assignor or its version range is not supported by the consumer group."""


class StaleMemberEpoch(KafkaError, code=113):
    """The member epoch is stale: retry with the epoch that the next ConsumerGroupHeartbeat brings."""


class MismatchedEndpointType(KafkaError, code=114):
    """The request was sent to an endpoint of the wrong type."""


class UnsupportedEndpointType(KafkaError, code=115):
    """This endpoint type is not supported yet."""


class UnknownControllerId(KafkaError, code=116):
    """This controller ID is not known."""


class UnknownSubscriptionId(KafkaError, code=117):
    """Client sent a push telemetry request with an invalid or outdated subscription ID."""


class TelemetryTooLarge(KafkaError, code=118):
    """Client sent a push telemetry request larger than the maximum size the broker will accept."""


class InvalidRegistration(KafkaError, code=119):
    """The controller has considered the broker registration to be invalid."""


class TransactionAbortable(KafkaError, code=120):
    """The transaction met an error: abort it to go on with this transactional id."""


class InvalidRecordState(KafkaError, code=121):
    """The record state is invalid. The acknowledgement of delivery could not be completed."""


class ShareSessionNotFound(KafkaError, code=122, retriable=True):
    """The share session was not found."""


class InvalidShareSessionEpoch(KafkaError, code=123, retriable=True):
    """The share session epoch is invalid."""


class FencedStateEpoch(KafkaError, code=124):
    """The share coordinator rejected the request because the share-group state epoch did not match."""


class InvalidVoterKey(KafkaError, code=125):
    """The voter key doesn't match the receiving replica's key."""


class DuplicateVoter(KafkaError, code=126):
    """The voter is already part of the set of voters."""


class VoterNotFound(KafkaError, code=127):
    """The voter is not part of the set of voters."""


class InvalidRegularExpression(KafkaError, code=128):
    """The regular expression is not valid."""


class RebootstrapRequired(KafkaError, code=129):
    """Client metadata is stale. The client should rebootstrap to obtain new metadata."""


class StreamsInvalidTopology(KafkaError, code=130):
    """The supplied topology is invalid."""


class StreamsInvalidTopologyEpoch(KafkaError, code=131):
    """The supplied topology epoch is invalid."""


class StreamsTopologyFenced(KafkaError, code=132):
    """The supplied topology epoch is outdated."""


class ShareSessionLimitReached(KafkaError, code=133, retriable=True):
    """The limit of share sessions has been reached."""
