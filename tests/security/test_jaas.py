"""JAAS texts: what errors say, and which section a listener gets. test_sasl_answers.py compares the grammar with Apache Kafka's."""

from __future__ import annotations

import pytest

from minibroker.security.jaas import PLAIN_LOGIN_MODULE, JaasError, parse_file, parse_property, section_of

SECRET = "hunter2"


@pytest.mark.parametrize(
    "login_module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "com.sun.security.auth.module.Krb5LoginModule",
        "com.example.Mine",
    ],
)
def test_other_login_modules_are_refused_by_name(login_module: str) -> None:
    with pytest.raises(JaasError, match=f"login module '{login_module}' is not supported"):
        parse_property(f'{login_module} required password="{SECRET}";')
    with pytest.raises(JaasError, match="is not supported"):
        parse_file(f"KafkaServer {{ {login_module} required; }};")


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN_LOGIN_MODULE} required user_a="{SECRET}"',
        f"{PLAIN_LOGIN_MODULE} required user_a={SECRET} {SECRET};",
        f'{PLAIN_LOGIN_MODULE} required user_a=" {SECRET};',
        f"{PLAIN_LOGIN_MODULE} {SECRET};",
        f"{PLAIN_LOGIN_MODULE} required {SECRET};",
        f"{PLAIN_LOGIN_MODULE} required user_a=1{SECRET};",
    ],
)
def test_errors_show_no_option(text: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_property(text)
    assert SECRET not in str(caught.value)
    with pytest.raises(JaasError) as caught:
        parse_file(f"KafkaServer {{\n{text}\n}};")
    assert SECRET not in str(caught.value)


def test_an_entry_shows_no_option() -> None:
    assert SECRET not in repr(parse_property(f'{PLAIN_LOGIN_MODULE} required user_a="{SECRET}";'))


def test_an_error_names_the_place() -> None:
    with pytest.raises(JaasError, match="line 2, character 10: '=' is missing"):
        parse_property(f"{PLAIN_LOGIN_MODULE} required\n  user_a {SECRET};")


def test_a_listener_gets_its_own_section_before_the_general_one() -> None:
    text = (
        f"sasl.KafkaServer {{ {PLAIN_LOGIN_MODULE} required user_a=own; }};\nKafkaServer {{ {PLAIN_LOGIN_MODULE} required user_a=all; }};"
    )
    sections = parse_file(text)
    assert [each.options for each in section_of(sections, "SASL") or ()] == [{"user_a": "own"}]
    assert [each.options for each in section_of(sections, "OTHER") or ()] == [{"user_a": "all"}]
    assert section_of(parse_file("KafkaClient { com.example.Any required; };"), "OTHER") is None
