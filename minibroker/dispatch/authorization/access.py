"""The questions of one request to the authorizer. The answers are written to the audit log."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final
from uuid import UUID

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import then
from minibroker.errors import ClusterAuthorizationFailed, KafkaError, TopicAuthorizationFailed
from minibroker.security.acl import CLUSTER_NAME, Operation, ResourceType
from minibroker.security.audit import AuditEntry
from minibroker.security.authorizer import rights_key

STEP: Final = 200  #: questions between two pauses


def allowed(ctx: RequestContext, key: int) -> set[str | UUID]:
    """Return the names of resources for which this operation (a `rights_key`) was allowed before.

    Frequent requests look here first.
    """
    connection = ctx.connection
    rights = connection.rights
    if rights is None or not rights.is_current or rights.principal != connection.principal:
        authorizer: Any = ctx.broker.authorizer
        rights = connection.rights = authorizer.rights(connection.principal, connection.client_host)
    return rights.allowed[key]


class Access:
    """The permissions of the client of a request."""

    __slots__ = ("_audit", "_authorizer", "_host", "_principal", "_request", "_rights")

    def __init__(self, ctx: RequestContext, request: str) -> None:
        """Prepare questions for `request`, the name of an API. The broker must have an authorizer."""
        services, connection = ctx.broker, ctx.connection
        authorizer: Any = services.authorizer
        audit: Any = services.audit
        self._authorizer, self._audit = authorizer, audit
        self._principal = connection.principal
        self._host = connection.client_host
        self._request = request
        #: None: each allowed operation is logged
        self._rights = None if audit.has_allowed else authorizer.rights(connection.principal, connection.client_host)

    def allows(self, operation: Operation, kind: ResourceType, name: str, count: int = 1) -> bool:
        """Return whether the client may do `operation` on a resource, which the request names `count` times.

        A denial is logged.
        """
        decision = self._authorizer.decide(self._principal, self._host, operation, kind, name)
        if not decision.is_allowed:
            self._audit.denied(AuditEntry(self._principal, self._host, operation, kind, name, decision, self._request, count))
            return False
        if self._rights is not None:
            self._rights.keep(rights_key(operation, kind), name)
        else:
            self._audit.allowed(AuditEntry(self._principal, self._host, operation, kind, name, decision, self._request, count))
        return True

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Return whether the client may do `operation` on a resource.

        A denial is not logged: for filters and alternatives.
        """
        decision = self._authorizer.decide(self._principal, self._host, operation, kind, name)
        return bool(decision.is_allowed)

    def allows_cluster(self, *operations: Operation) -> bool:
        """Return whether the client may do one of the operations on the cluster.

        A denial is logged once.
        """
        *alternatives, last = operations
        return any(self.may(each, ResourceType.CLUSTER, CLUSTER_NAME) for each in alternatives) or self.allows(
            last, ResourceType.CLUSTER, CLUSTER_NAME
        )

    def check_cluster(self, *operations: Operation) -> None:
        """Raise ClusterAuthorizationFailed unless the client may do one of the operations on the cluster."""
        if not self.allows_cluster(*operations):
            raise ClusterAuthorizationFailed

    def may_on_cluster(self, operation: Operation) -> bool:
        """Return whether the client may do this on the cluster. A denial is not logged."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Return whether the client may do `operation` on any resource of this type."""
        return bool(self._authorizer.is_allowed_by_type(self._principal, self._host, operation, kind))

    def operations(self, kind: ResourceType, name: str) -> int:
        """Return the allowed operations on a resource: bit n stands for operation n."""
        bits: int = self._authorizer.operations(self._principal, self._host, kind, name)
        return bits

    def keep(self, operation: Operation, kind: ResourceType, name: str | UUID) -> None:
        """Remember an allowed operation under another name of the resource."""
        if self._rights is not None:
            self._rights.keep(rights_key(operation, kind), name)

    def topic_errors(self, ctx: RequestContext, operation: Operation) -> TopicErrors:
        """Return a function that returns the error of each topic."""
        return TopicErrors(self, ctx, operation)


class TopicErrors:
    """Checks one operation on topics, once for each topic. An unknown topic id is not refused."""

    __slots__ = ("_access", "_answers", "_ids", "_operation")

    def __init__(self, access: Access, ctx: RequestContext, operation: Operation) -> None:
        self._access = access
        self._operation = operation
        self._ids = ctx.cluster.image.topics_by_id
        self._answers: dict[str, KafkaError | None] = {}

    def __call__(self, name: str, topic_id: UUID, _index: int | None = None) -> KafkaError | None:
        """Return TopicAuthorizationFailed or None for a topic that a request names or whose id it has."""
        if not name:
            topic = self._ids.get(topic_id)
            if topic is None:
                return None
            error = self._of(topic.name)
            if error is None:
                self._access.keep(self._operation, ResourceType.TOPIC, topic_id)
            return error
        return self._of(name)

    def _of(self, name: str) -> KafkaError | None:
        if name in self._answers:
            return self._answers[name]
        error = None if self._access.allows(self._operation, ResourceType.TOPIC, name) else TopicAuthorizationFailed()
        self._answers[name] = error
        return error


def keep_allowed(ctx: RequestContext, result: Any, field: str, is_allowed: Callable[[Any], bool]) -> Any:
    """Keep only the allowed elements of a list in a handler's response, with pauses."""
    return then(result, lambda response: ctx.broker.slices.run(_kept(response, field, is_allowed)))


def _kept(response: Any, field: str, is_allowed: Callable[[Any], bool]) -> Generator[None, None, Any]:
    kept = yield from filtered(getattr(response, field) or (), is_allowed)
    setattr(response, field, kept)
    return response


def changed(ctx: RequestContext, result: Any, steps: Callable[[Any], Generator[None, None, None]]) -> Any:
    """Change a handler's response in steps with pauses."""

    def in_slices(response: Any) -> Generator[None, None, Any]:
        yield from steps(response)
        return response

    return then(result, lambda response: ctx.broker.slices.run(in_slices(response)))


def filtered(elements: Iterable[Any], is_allowed: Callable[[Any], bool]) -> Generator[None, None, list[Any]]:
    """Return the elements that are allowed, with pauses."""
    kept = []
    for number, each in enumerate(elements):
        if number % STEP == STEP - 1:
            yield
        if is_allowed(each):
            kept.append(each)
    return kept
