"""What a page is: an address, its data, its template, and the command that shows the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from minibroker.cluster.metadata.metadata_image import MetadataImage
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.console.asking import ask
from minibroker.console.filters import Filter
from minibroker.console.host import Host
from minibroker.console.visitor import Visitor
from minibroker.dispatch.context import Services
from minibroker.errors import UnknownTopicOrPartition
from minibroker.security.acl import Operation, ResourceType

T = TypeVar("T")

ROWS: Final = 50  #: of a page
QUERY_MAX: Final = 4_000  #: letters of one parameter


class QueryError(ValueError):
    """A parameter of the address is missing or invalid. The message is for the visitor."""


class NotFoundError(LookupError):
    """What the address names does not exist. The message is for the visitor."""


class Visit:
    """One request for a page."""

    def __init__(self, host: Host, visitor: Visitor, query: Mapping[str, str], *, is_read_only: bool = False) -> None:
        self.host = host
        self.visitor = visitor
        self.query = query
        self.is_read_only = is_read_only

    @property
    def services(self) -> Services:
        """The services of the broker."""
        return self.host.services

    @property
    def image(self) -> MetadataImage:
        """The metadata of the cluster."""
        return self.host.cluster.image

    async def ask(self, request: Any, version: int | None = None) -> Any:
        """Send a request to the broker as the visitor."""
        return await ask(self.services, self.visitor, request, version)

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter."""
        value = self.query.get(name, default)
        if len(value) > QUERY_MAX:
            raise QueryError(f"{name} must have at most {QUERY_MAX} characters, got {len(value)}")
        return value

    def number(self, name: str, default: int | None = None, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """Return a parameter that is a whole number."""
        text = self.text(name).strip()
        if not text:
            if default is None:
                raise QueryError(f"{name} is missing")
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or not least <= int(text[:20]) <= most:
            raise QueryError(f"{name} must be a whole number from {least} to {most}, got {text[:30]!r}")
        return int(text)

    def topic(self, name: str = "name") -> Topic:
        """Return the topic that a parameter names, which the visitor may see."""
        wanted = self.text(name)
        topic = self.host.cluster.topics.get(wanted)
        if topic is None or not self.may_see_topic(wanted):
            raise NotFoundError(f"there is no topic {wanted!r}")
        return topic

    def partition(self, topic: Topic, name: str = "partition") -> Partition:
        """Return the partition that a parameter names."""
        index = self.number(name, 0, most=2**31 - 1)
        try:
            return self.host.cluster.partition(topic.name, index)
        except UnknownTopicOrPartition:
            raise NotFoundError(f"topic {topic.name} has no partition {index} (it has {len(topic.partitions)})") from None

    def may_see_topic(self, name: str) -> bool:
        """Return whether the visitor may see that a topic exists."""
        return self.visitor.may(Operation.DESCRIBE, ResourceType.TOPIC, name)

    @property
    def may_see_cluster(self) -> bool:
        """Whether the visitor may see what concerns the broker as a whole: its files, sizes, listeners and clients."""
        return self.visitor.may(Operation.DESCRIBE, ResourceType.CLUSTER)

    async def decode(self, rows: list[dict[str, Any]], topic: str) -> None:
        """Decode keys and values of rows that name a schema, if there is a registry."""
        if self.host.decoder is not None:
            await self.host.decoder.decode(rows, topic, self)

    async def with_schema(self, wanted: Filter, schema_id: int | str) -> Filter:
        """Return a filter that also decodes values of a schema, if the visitor may read it."""
        decoder = self.host.decoder
        return wanted.with_schema(schema_id, None if decoder is None else await decoder.schema_of(schema_id, self))

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run work in a worker thread, after that of other visitors."""
        return await self.host.reader.in_thread(work, *arguments)

    def may(self, operation: Operation, kind: ResourceType, *name: str) -> bool:
        """Return whether the visitor may do something."""
        return self.visitor.may(operation, kind, *name)


class Page(NamedTuple):
    """One page of the console. Its JSON twin has the same address with `.json`."""

    path: str
    title: str
    template: str
    view: Callable[[Visit], Awaitable[dict[str, Any]]]  #: returns its data as JSON
    live: tuple[str, ...] = ()  #: blocks of the template that follow changes while the page is open
    interval_s: float = 1.0  #: between two looks at the data
    needs: tuple[Operation, ResourceType] | None = None  #: what the visitor must be allowed on the cluster
    section: str = ""  #: the entry of the navigation that it belongs to; empty: its own path


#: commands that connect to no broker, to its lab, or to its schema registry
_LOCAL: Final = ("minibroker dump-log", "minibroker lab", "minibroker schemas")
_USUAL: Final = "localhost:9092"  #: where commands connect to by default


def with_bootstrap(visit: Visit, command: str) -> str:
    """Return a command with the address of this broker, where that is not the default."""
    listener = visit.services.nodes.own.listeners[0]
    address = f"{listener.host or 'localhost'}:{listener.port}"
    return command if not command or address == _USUAL or command.startswith(_LOCAL) else f"{command} -b {address}"


class Rows(NamedTuple):
    """A part of a long list."""

    items: list[Any]
    page: int  #: from 1 on
    page_count: int
    total: int

    def to_json(self) -> dict[str, int]:
        """Return where this part is."""
        return {"page": self.page, "page_count": self.page_count, "total": self.total}


def rows_of(visit: Visit, items: list[Any], count: int = ROWS) -> Rows:
    """Return the part of a list that the parameter `page` asks for."""
    page_count = max(1, -(-len(items) // count))
    page = min(visit.number("page", 1, least=1), page_count)
    return Rows(items[(page - 1) * count : page * count], page, page_count, len(items))
