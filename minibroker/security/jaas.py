"""Read JAAS configurations: the value of `sasl.jaas.config`, and files with a section `KafkaServer`.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="x" user_alice="y";

    KafkaServer {
        org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="y";
    };

Tokens are those of Java's StreamTokenizer, which both of Kafka's readers use (JaasConfig, com.sun.security.auth.login.ConfigFile).
Options are secrets: no error and no repr shows them. Only login modules of mechanisms that minibroker serves are accepted. No class is
ever loaded by name (CVE-2023-25194).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, NoReturn

PLAIN_LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_LOGIN_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGIN_MODULES: Final = (PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE, OAUTHBEARER_LOGIN_MODULE)
SECTION: Final = "KafkaServer"

_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SHOWN_LETTERS: Final = 100  #: of a login module in an error


class JaasError(Exception):
    """A JAAS configuration cannot be read, or names a login module that is not served. The text contains no option."""


class JaasEntry(NamedTuple):
    """One login module and its options."""

    login_module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        """Name only the login module: the options are secrets."""
        return f"JaasEntry({self.login_module}, [hidden])"


def parse_property(text: str) -> JaasEntry:
    """Read the value of `sasl.jaas.config`, which has exactly one login module (JaasConfig, JaasContext.load).

    Raises:
        JaasError: the value is not such an entry.
    """
    tokens = _Tokens(text, quotes="\"'")
    entries = []
    while not tokens.is_at_end:
        entries.append(_entry(tokens))
    if not entries:
        raise JaasError("it has no login module")
    if len(entries) > 1:
        raise JaasError(f"it has {len(entries)} login modules, and must have exactly one")
    return entries[0]


def parse_file(text: str) -> dict[str, list[JaasEntry]]:
    """Read a JAAS file: the entries of each section, by its name. Sections of clients may have any login modules.

    Raises:
        JaasError: the text is not a JAAS file, or has a section twice.
    """
    tokens = _Tokens(text, quotes='"', more_letters="*")
    sections: dict[str, list[JaasEntry]] = {}
    while not tokens.is_at_end:
        name = tokens.word("the name of a section")
        tokens.symbol("{")
        entries: list[JaasEntry] = []
        while tokens.peek() != "}":
            entries.append(_entry(tokens, any_module=name.rpartition(".")[2] != SECTION))
        tokens.symbol("}")
        tokens.symbol(";")
        if name in sections:
            raise JaasError(f"section {name[:_SHOWN_LETTERS]!r} occurs twice")
        sections[name] = entries
    return sections


def section_of(sections: Mapping[str, list[JaasEntry]], listener_name: str) -> list[JaasEntry] | None:
    """Return the entries for a listener: of `<listener in lower case>.KafkaServer`, else of `KafkaServer` (JaasContext.defaultContext)."""
    found = sections.get(f"{listener_name.lower()}.{SECTION}")
    return sections.get(SECTION) if found is None else found


def _entry(tokens: _Tokens, *, any_module: bool = False) -> JaasEntry:
    login_module = tokens.word("a login module")
    if login_module not in LOGIN_MODULES and not any_module:
        shown = f" {login_module!r}" if _is_class_name(login_module) else ""
        raise JaasError(f"login module{shown} is not supported; use one of {', '.join(LOGIN_MODULES)}")
    if tokens.word("a control flag such as required").upper() not in _FLAGS:
        tokens.fail("a control flag (required, requisite, sufficient, optional) must follow the login module")
    options: dict[str, str] = {}
    while tokens.peek() != ";":
        if tokens.is_at_end:
            raise JaasError("the entry must end with a semicolon")
        name = tokens.word("an option or a semicolon")
        tokens.symbol("=")
        options[name] = tokens.word("the value of an option")
    tokens.symbol(";")
    return JaasEntry(login_module, options)


def _is_class_name(text: str) -> bool:
    """Whether a text is the name of a Java class in a package, and not a password in its place."""
    return len(text) <= _SHOWN_LETTERS and "." in text and all(part.isidentifier() for part in text.replace("$", ".").split("."))


class _Tokens:
    """The tokens of a text as Java's StreamTokenizer finds them: words, quoted texts and single characters."""

    def __init__(self, text: str, *, quotes: str, more_letters: str = "") -> None:
        self._text = text
        self._quotes = quotes
        self._more_letters = "-_$" + more_letters
        self._found = self._scan()
        self._next = next(self._found, None)  #: (position, is a word, text)

    @property
    def is_at_end(self) -> bool:
        """Whether no token is left."""
        return self._next is None

    def peek(self) -> str | None:
        """Return the next token if it is a single character, not a word; None for others."""
        return None if self._next is None or self._next[1] else self._next[2]

    def word(self, expected: str) -> str:
        """Take a word or a quoted text. Raise JaasError, which says what was `expected`, if the next token is another one."""
        if self._next is None or not self._next[1]:
            self.fail(f"{expected} is missing")
        found = self._next[2]
        self._next = next(self._found, None)
        return found

    def symbol(self, symbol: str) -> None:
        """Take a single character, or raise JaasError."""
        if self.peek() != symbol:
            self.fail(f"{symbol!r} is missing")
        self._next = next(self._found, None)

    def fail(self, problem: str) -> NoReturn:
        """Raise JaasError with the place of the next token. Its text may be a part of a password."""
        if self._next is None:
            raise JaasError(f"at its end, {problem}")
        line = self._text.count("\n", 0, self._next[0]) + 1
        column = self._next[0] - self._text.rfind("\n", 0, self._next[0])
        raise JaasError(f"line {line}, character {column}: {problem}")

    def _scan(self) -> Iterator[tuple[int, bool, str]]:
        text, position = self._text, 0
        while position < len(text):
            letter = text[position]
            if letter <= " ":
                position += 1
            elif letter == "/":
                position = self._after_comment(position)
            elif letter in self._quotes:
                word, end = _quoted(text, position)
                yield position, True, word
                position = end
            else:
                end = position
                while end < len(text) and self._is_letter(text[end]):
                    end += 1
                # A word that starts like a number is a number for StreamTokenizer, which JAAS accepts nowhere.
                is_word = end > position and not letter.isdigit() and letter not in ".-"
                end = max(end, position + 1)
                yield position, is_word, text[position:end]
                position = end

    def _is_letter(self, letter: str) -> bool:
        return (letter.isascii() and (letter.isalnum() or letter == ".")) or letter >= "\xa0" or letter in self._more_letters

    def _after_comment(self, position: int) -> int:
        if self._text.startswith("/*", position):
            end = self._text.find("*/", position + 2)
            return len(self._text) if end < 0 else end + 2
        end = self._text.find("\n", position)
        return len(self._text) if end < 0 else end


def _quoted(text: str, position: int) -> tuple[str, int]:
    """Return the content of the quoted text at `position`, and where it ends. It ends with its line, if not before."""
    quote, found = text[position], []
    position += 1
    while position < len(text) and text[position] not in (quote, "\n", "\r"):
        letter = text[position]
        position += 1
        if letter == "\\" and position < len(text):
            letter = text[position]
            position += 1
            if letter in "01234567":
                longest = 3 if letter in "0123" else 2
                start = position - 1
                while position < len(text) and position - start < longest and text[position] in "01234567":
                    position += 1
                letter = chr(int(text[start:position], 8))
            else:
                letter = _ESCAPES.get(letter, letter)
        found.append(letter)
    is_closed = position < len(text) and text[position] == quote
    return "".join(found), position + 1 if is_closed else position
