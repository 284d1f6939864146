"""The Java client's class of an error: Kafka's tools print it, and scripts look for it."""

from __future__ import annotations

import re
from typing import Final

from minibroker.errors import KafkaError

_PACKAGE: Final = "org.apache.kafka.common.errors"
_ENDING: Final = re.compile(r"(Failed|Error|Exception)?$")
#: ours -> Java's, where it is not ours with `Exception` in the place of `Failed`, `Error` or nothing
_OTHERS: Final = {
    "CorruptMessage": "CorruptRecordException",
    "RequestTimedOut": "TimeoutException",
    "MessageTooLarge": "RecordTooLargeException",
    "StaleControllerEpoch": "ControllerMovedException",
    "OffsetMetadataTooLarge": "OffsetMetadataTooLarge",
    "RecordListTooLarge": "RecordBatchTooLargeException",
    "TopicAlreadyExists": "TopicExistsException",
    "InvalidConfig": "InvalidConfigurationException",
    "OutOfOrderSequenceNumber": "OutOfOrderSequenceException",
    "DuplicateSequenceNumber": "DuplicateSequenceException",
    "InvalidProducerIdMapping": "InvalidPidMappingException",
    "InvalidTransactionTimeout": "InvalidTxnTimeoutException",
    "DelegationTokenAuthDisabled": "DelegationTokenDisabledException",
    "DelegationTokenRequestNotAllowed": "UnsupportedByAuthenticationException",
    "NonEmptyGroup": "GroupNotEmptyException",
    "FeatureUpdateFailed": "FeatureUpdateFailedException",
    "PrincipalDeserializationFailure": "PrincipalDeserializationException",
    "InvalidRegularExpression": "InvalidRegularExpression",
}


def java_name(error: KafkaError) -> str:
    """With its package."""
    name = type(error).__name__
    if name == "InvalidRecord":
        return "org.apache.kafka.common.InvalidRecordException"
    return f"{_PACKAGE}.{_OTHERS.get(name) or _ENDING.sub('', name, count=1) + 'Exception'}"
