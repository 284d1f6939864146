"""Regular expressions: accepted and matched as by Apache Kafka 4.3.1 (RE2/J) and by Python, at a bounded cost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import InvalidRegularExpression
from minibroker.regular_expression import MAX_STEPS, MAX_UNICODE_CLASSES, Regex
from tests.support.soak import examples

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
    r"\p{Greek}+": ("λόγος", "logos"),
    r"\\C": ("\\C", "C"),
    r"\Q\C\E": ("\\C", "C"),
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
    r"\x{110000}",
    r"\xg0",
    "(?z)",
    "(?P<>a)",
    "\\",
    "(" * 2000,
    "(((){1000}){1000}){1000}",
    "((((){1000}){1000}){1000}){1000}",
    "a{" + "9" * 5000 + "}",
    r"\pL" * (MAX_UNICODE_CLASSES + 1),
    r"x\\\C",
    r"\Q\C\E\C",
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


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)*b", "(.*)(.*)(.*)(.*)(.*)(.*)b", "(a?){500}a{500}b", "(a|b|c|d|e|f)?" * 1000])
def test_expressions_that_backtracking_never_finishes(pattern: str) -> None:
    regex = Regex(pattern)
    assert not regex.matches("a" * 600 + "g")
    assert regex.matches("a" * 600 + "b")


def test_steps_bound_the_work_for_one_text() -> None:
    regex = Regex(r"(\b?a?){800}")
    longest = MAX_STEPS // 3204 - 1  # it has 3204 instructions
    assert not regex.matches("b" * longest)
    with pytest.raises(InvalidRegularExpression, match="too large for a text of 30000 characters"):
        regex.matches("a" * 30_000)
    with pytest.raises(InvalidRegularExpression, match="too large for a text"):
        regex.matches("é" * longest)  # bytes count, not characters


def test_the_longest_text_is_checked_at_once() -> None:
    with pytest.raises(InvalidRegularExpression, match="it has 3204 instructions"):
        Regex(r"(\b?a?){800}", longest_text_bytes=2000)


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


@examples(300)
@given(EXPRESSIONS, st.text("abc\n", max_size=5))
def test_as_python(pattern: str, text: str) -> None:
    assert Regex(pattern).matches(text) == (re.fullmatch(pattern, text) is not None)
