"""JAAS texts and SASL messages, compared with what Apache Kafka's own classes make of them (tests.golden.captures.sasl_answers)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from minibroker.security.jaas import JaasError, parse_file, parse_property
from minibroker.security.oauthbearer import OAuthBearerServer, UnsecuredValidator
from minibroker.security.plain import PlainServer, users_of
from minibroker.security.sasl_session import SCRAM_SHA_256, SaslFailed, SaslMechanism
from minibroker.security.scram import ScramServer, UnknownUsers, derive
from tests.golden.captures.sasl_answers import FILE, bearer

GOLDEN: dict[str, Any] = json.loads(FILE.read_text())
USER = derive(SCRAM_SHA_256, b"pencil", b"salt", 4096)


def no_tokens(_token_id: str) -> None:
    return None


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def entries(found: list[Any]) -> str:
    words = [
        ",".join([encoded(each.login_module), *(f"{encoded(k)}={encoded(v)}" for k, v in sorted(each.options.items()))]) for each in found
    ]
    return " ".join(["entries", *words])


def exchange(server: SaslMechanism, messages: list[str]) -> str:
    answers = [base64.b64encode(server.evaluate(message.encode())).decode() for message in messages]
    return " ".join(["answers", *answers, f"complete {encoded(server.principal_name)}" if server.is_complete else "incomplete"])


def ours(kind: str, texts: list[str]) -> str:
    if kind == "property":
        return entries([parse_property(texts[0])])
    if kind == "file":
        return entries(parse_file(texts[0]).get(texts[1], []))
    if kind == "scram":
        find = {"user": USER}.get
        return exchange(ScramServer(SCRAM_SHA_256, find, no_tokens, UnknownUsers()), texts[1:])
    if kind == "plain":
        return exchange(PlainServer(users_of([parse_property(texts[0])])), texts[1:])
    options = parse_property(texts[0]).options
    return exchange(OAuthBearerServer(UnsecuredValidator(options, lambda: GOLDEN["now_s"] * 1000)), texts[1:])


def outcome(call: Callable[[], str]) -> str:
    """What came out, in the words of SaslAnswers.java; the message only where it is told to clients."""
    try:
        found = call()
    except JaasError:
        return "error"
    except SaslFailed as failure:
        return f"error told {failure.client_message}" if failure.client_message is not None else "error"
    return found


def kafkas(answer: str) -> str:
    words = answer.split(" ")
    if words[0] != "error":
        return answer
    return f"error told {base64.b64decode(words[2]).decode()}" if words[1] == "SaslAuthenticationException" else "error"


def is_alike(kind: str, texts: list[str], found: str, expected: str) -> bool:
    if kind == "scram" and expected.startswith("answers"):
        return found.startswith("answers") and found.endswith(expected.rsplit(" ", 1)[1])  # nonce and salt are random
    if kind == "scram" and any(name in texts[1] for name in ("n=nobody", "us=2Cer", "tokenauth")) and expected == "error":
        return found.endswith("incomplete")  # ours does not tell that there is no such user
    if kind == "property" and expected.count(" ") == 2:
        return found == "error"  # Kafka refuses a second login module when it loads the context
    return found == expected


def test_jaas_texts_and_messages_have_the_outcome_that_they_have_in_apache_kafka() -> None:
    different = [
        (kind, texts, found, expected)
        for kind, texts, answer in GOLDEN["cases"]
        if not is_alike(kind, texts, found := outcome(lambda: ours(kind, texts)), expected := kafkas(answer))  # noqa: B023  called at once
    ]
    assert different == []
    assert len(GOLDEN["cases"]) > 120


def test_nothing_but_the_acknowledgement_follows_a_refused_token() -> None:
    server = OAuthBearerServer(UnsecuredValidator({}, lambda: 0))
    assert server.evaluate(bearer("a.b.").encode()) == b'{"status":"invalid_token"}'
    good = next(texts[1] for kind, texts, answer in GOLDEN["cases"] if kind == "unsecured" and "complete" in answer)
    outcomes = outcome(lambda: exchange(server, [good]))
    assert outcomes == "error"
    assert not server.is_complete
