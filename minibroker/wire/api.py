"""One API as its schema module declares it: key, name, versions, routing, authorization, request and response."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from minibroker.wire.authorization import Rule
from minibroker.wire.routing import Routing

NEVER: Final = 32768  #: a FLEXIBLE_SINCE above every version


class Api:
    """The declarations of one API key, for the broker and its clients."""

    __slots__ = (
        "Request", "Response", "authorizes", "flexible_since", "key", "leftover_allowed", "max_version", "min_version", "name", "routed_by",
    )  # fmt: skip

    def __init__(self, module: ModuleType) -> None:
        self.key: int = module.API_KEY
        self.name = name_of(module)  #: Kafka's: "DeleteRecords"
        self.min_version: int
        self.max_version: int  #: the served versions, inclusive; the schema may declare more
        self.min_version, self.max_version = module.VERSIONS
        if not hasattr(module, "ROUTED_BY"):
            raise TypeError(f"{module.__name__} must declare ROUTED_BY: which broker serves a request (minibroker/wire/routing.py)")
        self.routed_by: Routing = module.ROUTED_BY  #: which broker a request must be sent to
        if not hasattr(module, "AUTHORIZES"):
            raise TypeError(f"{module.__name__} must declare AUTHORIZES: what a request asks for (minibroker/wire/authorization.py)")
        self.authorizes: tuple[Rule, ...] = module.AUTHORIZES  #: checked by an authorizer, in this order
        flexible_since: int | None = module.FLEXIBLE_SINCE
        self.flexible_since = NEVER if flexible_since is None else flexible_since
        #: Apache Kafka ignores bytes after any request. minibroker does so only for requests after which a known client leaves some.
        self.leftover_allowed: bool = getattr(module, "LEFTOVER_ALLOWED", False)
        self.Request: type[Any] = module.Request
        self.Response: type[Any] = module.Response

    def flexible(self, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields, as its request header then has."""
        return version >= self.flexible_since

    def serves(self, version: int) -> bool:
        """Whether minibroker serves the version."""
        return self.min_version <= version <= self.max_version

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} {self.min_version}..{self.max_version}>"


def api_of(module: ModuleType) -> Api:
    """Read the declarations of a schema module (API_KEY, VERSIONS, ROUTED_BY, AUTHORIZES, FLEXIBLE_SINCE, Request, Response).

    Raises:
        TypeError: the module does not declare ROUTED_BY or AUTHORIZES.
    """
    return Api(module)


def name_of(module: ModuleType) -> str:
    """Return Kafka's name of an API, from the stem of its file: DeleteRecords for k21_delete_records."""
    stem = module.__name__.rpartition(".")[2]
    return "".join(word.capitalize() for word in stem.split("_")[1:])
