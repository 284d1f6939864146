"""What a client of the registry may do, by the access control entries of topics.

A subject belongs to a topic, in every context: `orders-value` and `orders-key` to the topic `orders`,
any other subject to the topic of its own name, so that entries for `com.example.*` are possible.

    read versions, schemas, compatibility, settings of a subject    DESCRIBE on its topic, which READ and WRITE imply
    register                                                        WRITE; DESCRIBE on the topics of referenced subjects
    delete                                                          DELETE
    change configuration or mode                                    ALTER_CONFIGS
    global settings, and those of a context                         the same on the topic `_schemas`
    a schema by its id or GUID                                      DESCRIBE on the topic of a subject that has it

Lists leave out what the client may not read. Without an authorizer every client may do everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minibroker.registry.errors import not_authorized, schema_not_authorized
from minibroker.registry.subjects import parse_subject
from minibroker.registry.topic import SCHEMAS_TOPIC
from minibroker.security.acl import Operation, ResourceType
from minibroker.security.authorizer import Authorizer

_SUFFIXES = ("-value", "-key")


def topic_of(subject: str | None) -> str:
    """The topic whose entries count for a subject; `_schemas` for the global settings (None) and those of a context."""
    name = "" if subject is None else parse_subject(subject).name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name or SCHEMAS_TOPIC


class Access:
    """The rights of one client."""

    def __init__(self, authorizer: Authorizer | None = None, principal: str = "", host: str = "") -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host

    @property
    def is_limited(self) -> bool:
        """Whether there is anything to check."""
        return self._authorizer is not None

    def may(self, operation: Operation, subject: str | None) -> bool:
        """Whether the client may do something with a subject, or with the global settings (None)."""
        authorizer = self._authorizer
        return authorizer is None or authorizer.is_allowed(self._principal, self._host, operation, ResourceType.TOPIC, topic_of(subject))

    def may_read(self, subject: str) -> bool:
        """Whether the client may read a subject."""
        return self.may(Operation.DESCRIBE, subject)

    def check(self, operation: Operation, subject: str | None) -> None:
        """Raise RegistryError (40301) unless the client may do this."""
        if not self.may(operation, subject):
            raise not_authorized(self._principal, operation.name, topic_of(subject))

    def check_any(self, subjects: Iterable[str]) -> None:
        """Raise RegistryError (40301) unless the client may read one of the subjects that have a schema."""
        if self.is_limited and not any(map(self.may_read, subjects)):
            raise schema_not_authorized(self._principal)


UNLIMITED: Final = Access()
