"""Errors of the registry's API: an error code, a message, and the HTTP status that follows from the code.

The first three digits of a code of five digits are the HTTP status. The texts are Confluent's where
clients compare them.
"""

from __future__ import annotations


class RegistryError(Exception):
    """A request that fails. `error_code` and the message go to the client."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.error_code if self.error_code < 1000 else self.error_code // 100


def subject_not_found(subject: str) -> RegistryError:
    """No version of the subject exists."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    """The subject exists, the version does not."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(id_or_guid: object = None) -> RegistryError:
    """No schema has this id or GUID, or equals the one in the request."""
    return RegistryError(40403, "Schema not found" if id_or_guid is None else f"Schema {id_or_guid} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    """The subject was deleted already, but not permanently."""
    return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """A permanent deletion before the soft one."""
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    """The version was deleted already, but not permanently."""
    return RegistryError(40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently")


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    """A permanent deletion of a version before the soft one."""
    return RegistryError(40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted")


def no_compatibility_of(subject: str) -> RegistryError:
    """The subject has no configuration."""
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode_of(subject: str) -> RegistryError:
    """The subject has no mode."""
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def not_authorized(principal: str, operation: str, topic: str) -> RegistryError:
    """The client may not do this with the topic of the subject."""
    return RegistryError(40301, f"{principal} may not {operation} topic {topic}, which the subject belongs to")


def schema_not_authorized(principal: str) -> RegistryError:
    """The client may not read any subject that has the schema."""
    return RegistryError(40301, f"{principal} may not read any subject that has this schema")


def login_required() -> RegistryError:
    """The client has not sent a valid login."""
    return RegistryError(401, "Unauthorized: log in with HTTP Basic as a user of the broker, or with a bearer token")


def incompatible(subject: str, reasons: list[str]) -> RegistryError:
    """A schema that the subject's earlier versions do not allow."""
    return RegistryError(
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{", ".join(reasons)}]',
    )


def invalid_schema(reason: str) -> RegistryError:
    """A text that is not a schema of its type."""
    return RegistryError(42201, reason)


def invalid_version(version: str) -> RegistryError:
    """A version in a path that is neither a number from 1 to 2^31 - 1 nor `latest`."""
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the string \"latest\"",
    )


def invalid_compatibility(level: object) -> RegistryError:
    """A compatibility level that does not exist."""
    levels = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
    return RegistryError(42203, f"Invalid compatibility level. Valid values are {levels}; got {level!r}")


def invalid_mode(mode: object) -> RegistryError:
    """A mode that does not exist."""
    return RegistryError(42204, f"Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT; got {mode!r}")


def not_permitted(reason: str) -> RegistryError:
    """An operation that the mode forbids."""
    return RegistryError(42205, reason)


def reference_exists(subject: str, version: int) -> RegistryError:
    """A deletion of a version that another schema references."""
    return RegistryError(
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def invalid_subject(subject: str) -> RegistryError:
    """A name that no subject can have."""
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large(size: int, limit: int) -> RegistryError:
    """A schema that does not fit into a record of the topic."""
    return RegistryError(42209, f"Write failed because schema is too large: {size} bytes, the limit is {limit}")


def invalid_rule_set(reason: str) -> RegistryError:
    """A rule set with a rule that cannot be."""
    return RegistryError(42210, reason)


def context_not_empty(context: str) -> RegistryError:
    """A deletion of a context that has subjects."""
    return RegistryError(42211, f"The specified context '{context}' is not empty.")


def store_failed(reason: str) -> RegistryError:
    """The topic cannot be read or written."""
    return RegistryError(50001, reason)
