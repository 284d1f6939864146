"""Metadata records about access: ACLs, SCRAM credentials and delegation tokens.

All of them have only v0, which is flexible.
"""

from __future__ import annotations

from minibroker.wire.schema import Bytes, Int8, Int32, Int64, String, Uuid, struct


@struct
class AccessControlEntryRecord:
    """One ACL; the numbers are those of Kafka's ResourceType, PatternType, AclOperation and AclPermissionType."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class RemoveAccessControlEntryRecord:
    """One ACL was deleted."""

    id: Uuid


@struct
class UserScramCredentialRecord:
    """What a server must know of a user's password (RFC 5802)."""

    name: String
    mechanism: Int8  #: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    salt: Bytes
    stored_key: Bytes  #: proves the client to the server
    server_key: Bytes  #: proves the server to the client
    iterations: Int32


@struct
class RemoveUserScramCredentialRecord:
    """A user's credential for one mechanism was deleted."""

    name: String
    mechanism: Int8


@struct
class DelegationTokenRecord:
    """A delegation token is issued or renewed; times in ms since 1970."""

    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64  #: no renewal beyond it
    expiration_timestamp: Int64  #: to be renewed before it
    token_id: String


@struct
class RemoveDelegationTokenRecord:
    """A delegation token was removed."""

    token_id: String
