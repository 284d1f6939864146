"""Who looks at a page, and what the broker's authorizer lets them see and do."""

from __future__ import annotations

from minibroker.dispatch.context import ANONYMOUS, ConnectionInfo, Services
from minibroker.errors import ClusterAuthorizationFailed, GroupAuthorizationFailed, KafkaError, TopicAuthorizationFailed
from minibroker.security.acl import CLUSTER_NAME, Operation, ResourceType
from minibroker.security.authorizer import Authorizer

_ERRORS: dict[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
}


class Visitor:
    """One visitor, as the broker knows its clients: a principal and an address."""

    def __init__(self, services: Services, principal: str = ANONYMOUS, address: str = "127.0.0.1") -> None:
        self._services = services
        self.principal = principal
        #: what handlers see in the place of a client's connection
        self.connection = ConnectionInfo(services.nodes.own.listeners[0].name, address)
        self.connection.principal = principal
        self.connection.client_software_name = "minibroker-console"

    @property
    def key(self) -> str:
        """What limits count by: the user, or the address of a visitor who did not log in."""
        return self.connection.client_host if self.principal == ANONYMOUS else self.principal

    @property
    def authorizer(self) -> Authorizer | None:
        """What decides about the visitor's rights."""
        return self._services.authorizer

    def may(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the visitor may do something with a resource. Without an authorizer everybody may do everything."""
        authorizer = self._services.authorizer
        return authorizer is None or authorizer.is_allowed(self.principal, self.connection.client_host, operation, kind, name)

    def check(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the error of the resource's kind unless the visitor may do this."""
        if not self.may(operation, kind, name):
            error = _ERRORS.get(kind, ClusterAuthorizationFailed)
            raise error(f"{self.principal} may not {operation.name} {kind.name} {name}")
