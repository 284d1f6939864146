"""Names of subjects, and the contexts that they are in.

    orders-value          subject `orders-value` of the default context `.`
    :.test:orders-value   subject `orders-value` of the context `.test`
    :.test:               the context `.test` itself, in configurations and modes
    :*:orders             as a prefix: in all contexts

Ids are unique within a context.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from minibroker.registry.errors import invalid_subject

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
ALL_CONTEXTS: Final = ":*:"
_CONTEXT_PREFIX: Final = ":."
_RESERVED: Final = frozenset({"__GLOBAL", "__EMPTY"})
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_NAME_MAX: Final = 1024  #: characters; a limit of ours, so that a name fits into a key


class Subject(NamedTuple):
    """A name of a subject in its context. An empty name stands for the context itself."""

    context: str
    name: str

    @property
    def text(self) -> str:
        """The name with its context, as requests and records spell it."""
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"

    @property
    def is_default_context(self) -> bool:
        """Whether it names the default context itself, whose settings are the global ones."""
        return self.context == DEFAULT_CONTEXT and not self.name


def parse_subject(text: str) -> Subject:
    """Split the context from a subject."""
    if text.startswith(ALL_CONTEXTS):
        return Subject("*", text[len(ALL_CONTEXTS) :])
    if not text.startswith(_CONTEXT_PREFIX):
        return Subject(DEFAULT_CONTEXT, text)
    context, delimiter, name = text[1:].partition(":")
    return Subject(context, name if delimiter else "")


def normal_subject(text: str) -> str:
    """The spelling under which records keep the subject: `:.:name` is `name`."""
    return parse_subject(text).text


def check_new_subject(text: str) -> None:
    """Raise RegistryError (42208) for a name that no schema can be registered under."""
    subject = parse_subject(text)
    has_control = _CONTROL.search(text[: _NAME_MAX + 1]) is not None
    if subject.context == "*" or subject.name in _RESERVED or not subject.name or has_control or len(text) > _NAME_MAX:
        raise invalid_subject(text)


def with_parent(text: str, parent: str) -> str:
    """The subject of a reference: without a context of its own, it is in that of the schema `parent`."""
    if text.startswith(":"):
        return normal_subject(text)
    return Subject(parse_subject(parent).context, text).text


def matches_prefix(text: str, prefix: str) -> bool:
    """Whether a subject is listed for a prefix, in the default context or in all with `:*:`."""
    if prefix.startswith(ALL_CONTEXTS):
        return parse_subject(text).name.startswith(prefix[len(ALL_CONTEXTS) :])
    wanted = parse_subject(prefix)
    subject = parse_subject(text)
    return subject.context == wanted.context and subject.name.startswith(wanted.name)
