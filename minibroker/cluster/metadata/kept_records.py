"""Metadata records that are kept verbatim, so that a snapshot preserves record types that minibroker does not interpret.

These are registrations of brokers and controllers, quotas (client_quotas.py; dispatch/quotas.py enforces them), SCRAM credentials
(scram_credentials.py), ACLs (acls.py) and delegation tokens (delegation_tokens.py). Each thing is kept as the one record that creates it.
Records that change or remove the thing change or remove that record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from uuid import UUID

from minibroker.schemas.internal.broker_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from minibroker.schemas.internal.security_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from minibroker.schemas.internal.setting_records import ClientQuotaRecord
from minibroker.wire.schema import replace

_FENCED, _UNFENCED = 1, -1


class KeptRecords:
    """The state after the last record. Removing something unknown has no effect, as in Apache Kafka."""

    def __init__(self) -> None:
        self.brokers: dict[int, RegisterBrokerRecord] = {}
        self.controllers: dict[int, RegisterControllerRecord] = {}
        self.quotas: dict[tuple[frozenset[tuple[str, str | None]], str], ClientQuotaRecord] = {}
        self.acls: dict[UUID, AccessControlEntryRecord] = {}
        self.scram_credentials: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.delegation_tokens: dict[str, DelegationTokenRecord] = {}
        self.handlers: dict[type[Any], Callable[[Any], object]] = {
            RegisterBrokerRecord: lambda record: self.brokers.update({record.broker_id: record}),
            UnregisterBrokerRecord: lambda record: self.brokers.pop(record.broker_id, None),
            BrokerRegistrationChangeRecord: self._change_broker,
            FenceBrokerRecord: lambda record: self._replace_broker(record.id, fenced=True),
            UnfenceBrokerRecord: lambda record: self._replace_broker(record.id, fenced=False),
            RegisterControllerRecord: lambda record: self.controllers.update({record.controller_id: record}),
            ClientQuotaRecord: self._apply_quota,
            AccessControlEntryRecord: lambda record: self.acls.update({record.id: record}),
            RemoveAccessControlEntryRecord: lambda record: self.acls.pop(record.id, None),
            UserScramCredentialRecord: lambda record: self.scram_credentials.update({(record.name, record.mechanism): record}),
            RemoveUserScramCredentialRecord: lambda record: self.scram_credentials.pop((record.name, record.mechanism), None),
            DelegationTokenRecord: lambda record: self.delegation_tokens.update({record.token_id: record}),
            RemoveDelegationTokenRecord: lambda record: self.delegation_tokens.pop(record.token_id, None),
        }

    def broker_epoch(self, broker_id: int) -> int:
        """Return the epoch of a broker's last registration at Apache Kafka; -1 if it has none."""
        registered = self.brokers.get(broker_id)
        return -1 if registered is None else registered.broker_epoch

    def registrations(self) -> Iterator[Any]:
        """Yield the records of brokers and controllers."""
        return chain(self.brokers.values(), self.controllers.values())

    def security(self) -> Iterator[Any]:
        """Yield the records of ACLs, credentials and tokens."""
        return chain(self.acls.values(), self.scram_credentials.values(), self.delegation_tokens.values())

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, Any] = {}
        if record.fenced in {_FENCED, _UNFENCED}:
            changes["fenced"] = record.fenced == _FENCED
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown == _FENCED
        if record.log_dirs:
            changes["log_dirs"] = record.log_dirs
        if record.cordoned_log_dirs is not None:
            changes["cordoned_log_dirs"] = record.cordoned_log_dirs
        self._replace_broker(record.broker_id, **changes)

    def _replace_broker(self, broker_id: int, **changes: Any) -> None:
        known = self.brokers.get(broker_id)
        if known is not None:
            self.brokers[broker_id] = replace(known, **changes)

    def _apply_quota(self, record: ClientQuotaRecord) -> None:
        key = frozenset((part.entity_type, part.entity_name) for part in record.entity), record.key
        if record.remove:
            self.quotas.pop(key, None)
        else:
            self.quotas[key] = record
