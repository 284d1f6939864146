"""The access control entries of the metadata log (AccessControlEntryRecord), and the authorizer that decides by them.

Each entry is one record with a random id. An entry that exists is not written again. Checks and messages are those of Apache Kafka 4.3.1
(AclControlManager, AclApis). For numbers that only filters may have, Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR; here it is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from minibroker.cluster.metadata.metadata_log import RECORDS_IN_BATCH_MAX
from minibroker.errors import InvalidRequest, KafkaError, PolicyViolation
from minibroker.schemas.internal.security_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from minibroker.security.acl import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from minibroker.security.authorizer import Authorizer

_DELETED_AT_ONCE: Final = 200  #: entries in one batch of the metadata log
_FILTERS_ONLY: Final = 2  #: resource types, operations and permissions below it are UNKNOWN and ANY


class StoredAcls:
    """The entries of a cluster. Changes are in force when they are on disk."""

    def __init__(
        self, records: Iterable[AccessControlEntryRecord], commit: Callable[[Sequence[Any]], None], authorizer: Authorizer
    ) -> None:
        """Fill the authorizer.

        Args:
            records: those of the entries that exist.
            commit: writes records to the metadata log, all of them or none.
            authorizer: an empty one.
        """
        self.authorizer = authorizer
        self._commit = commit
        self._ids: dict[Acl, UUID] = {}
        for record in records:
            self._add(record)

    def create(self, acls: Iterable[Acl]) -> list[KafkaError | None]:
        """Create the valid ones of these entries. Returns the error of each, or None.

        Raises:
            PolicyViolation: they do not fit into one batch of the metadata log. None is created.
        """
        new: dict[Acl, AccessControlEntryRecord] = {}
        outcomes: list[KafkaError | None] = []
        for acl in acls:
            try:
                check(acl)
            except KafkaError as error:
                outcomes.append(error.with_traceback(None))
                continue
            if acl not in self._ids:
                new[acl] = new.get(acl) or record_of(acl)
            outcomes.append(None)
        self._commit(list(new.values()))
        for record in new.values():
            self._add(record)
        return outcomes

    def delete(self, filters: Iterable[AclFilter]) -> Generator[None, None, list[list[Acl]]]:
        """Delete the entries that any of these filters matches, with pauses. Returns the entries that each matches.

        A crash may leave a part of them.

        Raises:
            PolicyViolation: they are more than RECORDS_IN_BATCH_MAX. None is deleted.
        """
        found: list[list[Acl]] = []
        all_found: dict[Acl, None] = {}
        for each in filters:
            matching = yield from self.find(each)
            found.append(matching)
            all_found.update(dict.fromkeys(matching))
            if len(all_found) > RECORDS_IN_BATCH_MAX:
                raise PolicyViolation(f"A request may delete {RECORDS_IN_BATCH_MAX} access control entries at most.")
        doomed = list(all_found)
        for start in range(0, len(doomed), _DELETED_AT_ONCE):
            removed = [acl for acl in doomed[start : start + _DELETED_AT_ONCE] if acl in self._ids]
            self._commit([RemoveAccessControlEntryRecord(id=self._ids[acl]) for acl in removed])
            for acl in removed:
                del self._ids[acl]
                self.authorizer.remove(acl)
            yield
        return found

    def find(self, acl_filter: AclFilter) -> Generator[None, None, list[Acl]]:
        """Return the entries that a filter matches, in the order of their creation, with pauses."""
        return self.authorizer.find(acl_filter)

    def _add(self, record: AccessControlEntryRecord) -> None:
        acl = acl_of(record)
        self._ids[acl] = record.id
        self.authorizer.add(acl)


def check(acl: Acl) -> None:
    """Raise InvalidRequest if an entry cannot be created. Whether the operation fits the resource is not checked, as in Kafka."""
    if acl.resource_type < _FILTERS_ONLY:
        raise InvalidRequest(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        raise InvalidRequest(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation < _FILTERS_ONLY:
        raise InvalidRequest(f"Invalid operation {acl.operation.name}")
    if acl.permission < _FILTERS_ONLY:
        raise InvalidRequest(f"Invalid permissionType {acl.permission.name}")
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if ":" not in acl.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from the principal name)"
        )


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """Return the entry of a record."""
    return Acl(
        ResourceType(record.resource_type),
        record.resource_name,
        PatternType(record.pattern_type),
        record.principal,
        record.host,
        Operation(record.operation),
        Permission(record.permission_type),
    )


def record_of(acl: Acl) -> AccessControlEntryRecord:
    """Return the record of a new entry."""
    return AccessControlEntryRecord(
        id=uuid4(),
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
