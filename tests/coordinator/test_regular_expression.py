"""Regular expressions: as Apache Kafka 4.3.1 (RE2/J) took them, as Python does where the syntax is the same, and in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker.coordinator.regular_expression import Regex
from minibroker.errors import InvalidRegularExpression

TEXTS = ["golden-1", "xgolden-2", "GOLDEN", "a.b", "gol\nden", "golden-1x"]

#: patterns and which of TEXTS Kafka found, as filters of ListTransactions
FOUND_BY_KAFKA = {
    "golden": [],
    "golden.*": ["golden-1", "golden-1x"],
    "golden-1": ["golden-1"],
    "golden-1|.*x": ["golden-1", "golden-1x"],
    "gol.den": [],
    "(?s)gol.den": ["gol\nden"],
    "(?i)golden": ["GOLDEN"],
    "a{2": [],
    "(?P<n>golden)-1": ["golden-1"],
    "(?<n>golden)-1": ["golden-1"],
    r"\Qa.b\E": ["a.b"],
    r"a\.b": ["a.b"],
    "[[:alpha:]]+": ["GOLDEN"],
    r"\pL+": ["GOLDEN"],
    "^golden-1$": ["golden-1"],
    "golden-1$": ["golden-1"],
    r"(?:golden)-\d": ["golden-1"],
    "a{1000}": [],
    r"\z": [],
    r"golden-1\z": ["golden-1"],
}
REFUSED_BY_KAFKA = ["(", "[", "(?=a)", r"(a)\1", "x*+", "a**", "a{1001}", r"\C*", r"golden-1\Z"]

OURS = {
    r"[^a-f\d]+": ("xyz", "axyz"),
    r"[\]a-c-]+": ("]ab-", "d"),
    "[]a]+": ("]a", "b"),
    r"\p{Lu}\P{Lu}*": ("Überall", "überall"),
    r"\p{^Lu}": ("a", "A"),
    r"[[:^digit:][:punct:]]": ("x", "7"),
    r"(?i:straße)": ("STRAßE", "strasse"),
    r"a(?i)b|c": ("aB", "AB"),
    r"(?i-s:A.)b": ("axb", "axB"),
    r"(?m)a$\n^b": ("a\nb", "ab"),
    r"\bword\b": ("word", "words"),
    r"wor\Bd": ("word", "wor"),
    r"\x41\x{1F600}\101\0\t": ("A\U0001f600A\0\t", "A"),
    r"x{2,3}?y{0}z{1,}": ("xxzz", "xyz"),
    "(a*)*b": ("aab", "aa"),
    "(a|ab)(c|bcd)(d*)": ("abcd", "abd"),
    "]}{": ("]}{", "]"),
    "|a": ("", "b"),
    "": ("", "a"),
}
REFUSED = [
    ")",
    "*",
    "a{3,2}",
    "a{,2}{2}{3}",
    "[b-a]",
    "[[:nonsense:]]",
    r"\p{Greek}",
    r"\x{110000}",
    r"\xg0",
    "(?z)",
    "(?P<>a)",
    "\\",
    "(" * 200,
]
REFUSED += ["(?", "(?<=a)b", "((((a{100}){100}){100}){100})", r"\8", "(?i", "[a"]


@pytest.mark.parametrize("pattern", FOUND_BY_KAFKA)
def test_as_kafka(pattern: str) -> None:
    regex = Regex(pattern)
    assert [text for text in TEXTS if regex.matches(text)] == FOUND_BY_KAFKA[pattern]


@pytest.mark.parametrize("pattern", OURS)
def test_syntax(pattern: str) -> None:
    matching, other = OURS[pattern]
    assert Regex(pattern).matches(matching)
    assert not Regex(pattern).matches(other)


@pytest.mark.parametrize("pattern", [*REFUSED_BY_KAFKA, *REFUSED])
def test_no_expressions(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        Regex(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)*b", "(.*)(.*)(.*)(.*)(.*)(.*)b", "(a?){500}a{500}b"])
def test_no_expression_makes_it_hang(pattern: str) -> None:
    regex = Regex(pattern)
    assert not regex.matches("a" * 600 + "c")
    assert regex.matches("a" * 600 + "b")


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\n", "c"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda each: f"(?:^{each})"),
        inner.map(lambda each: rf"(?:{each}\b)"),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, st.text("abc\n", max_size=5))
def test_as_python(pattern: str, text: str) -> None:
    assert Regex(pattern).matches(text) == (re.fullmatch(pattern, text) is not None)
