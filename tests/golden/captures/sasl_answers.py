"""Capture what Apache Kafka's own classes make of JAAS texts and of SASL messages (SaslAnswers.java).

Writes sasl_answers_kafka_4.3.1.json: of each case its kind, its arguments, and the answer. tests/security compares ours with it.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path

from tests.support.java import kafka_jars

FILE = Path(__file__).parents[1] / "sasl_answers_kafka_4.3.1.json"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

JAAS = [
    f'{PLAIN} required username="admin" password="x" user_admin="x" user_alice="a-secret";',
    f"{PLAIN} required user_alice='single quotes' user_bob=\"it's\";",
    f'{PLAIN} required user_alice="a\\"b\\\\c" user_bob="tab\\tend" user_carl="\\101\\60\\477";',
    f'{PLAIN} required\n  user_alice="x"\n  ;  // a comment',
    f'/* before */ {PLAIN} REQUIRED /* within */ user_alice="x";',
    f"{PLAIN} Sufficient user_alice=word user_bob=w-o_r$d.1;",
    f"{PLAIN} required user_alice=123;",
    f"{PLAIN} required user_alice=-x;",
    f'{PLAIN} required user_alice="";',
    f'{PLAIN} required user_alice="x"',
    f'{PLAIN} required user_alice "x";',
    f"{PLAIN} required user_alice=;",
    f'{PLAIN} required user_alice="open;\n user_bob="y";',
    f'{PLAIN} required user_alice="x" user_alice="y";',
    f'{PLAIN} required user_alice="#/;={{}}";',
    f"{PLAIN} required user_ärger=größe;",
    f"{PLAIN} required user_alice=a/b;\n;",
    f"{PLAIN} required;",
    f"{SCRAM} optional;",
    f'{OAUTHBEARER} requisite unsecuredValidatorAllowableClockSkewMs="5";',
    f"{PLAIN};",
    f"{PLAIN} perhaps;",
    f'{PLAIN} required user_alice="x"; {SCRAM} required;',
    f'"{PLAIN}" required user_alice="x";',
    f'{PLAIN} required "user_a b"="x";',
    f"{PLAIN} required ;;",
    "",
    "  \n",
    ";",
]
FILES = [
    (f'KafkaServer {{ {PLAIN} required user_alice="x"; {SCRAM} required; }};', "KafkaServer"),
    (
        f'sasl.KafkaServer {{\n  {PLAIN} required\n  user_alice="x" // comment\n  ;\n}};\nKafkaServer {{ {SCRAM} required; }};',
        "sasl.KafkaServer",
    ),
    (f'KafkaServer {{ {PLAIN} required user_alice="a\\"b\\tc"; }};', "KafkaServer"),
    (f"KafkaServer {{ {PLAIN} required user_alice='x'; }};", "KafkaServer"),
    (f'KafkaServer {{ {PLAIN} required user_alice="x" }};', "KafkaServer"),
    (f'KafkaServer {{ {PLAIN} required user_alice="x"; }}', "KafkaServer"),
    (f'KafkaServer {{ {PLAIN} maybe user_alice="x"; }};', "KafkaServer"),
    (f"KafkaServer {{ {PLAIN} required; }}; KafkaServer {{ {PLAIN} required; }};", "KafkaServer"),
    (f"Client {{ com.example.Other required debug=true; }};\nKafkaServer {{ {PLAIN} required user_a=b; }};", "KafkaServer"),
    (f"KafkaClient {{ {PLAIN} required; }};", "KafkaServer"),
]
PLAIN_MESSAGES = [
    "\0alice\0a-secret",
    "alice\0alice\0a-secret",
    "bob\0alice\0a-secret",
    "\0alice\0wrong",
    "\0nobody\0a-secret",
    "\0\0a-secret",
    "\0alice\0",
    "\0alice",
    "",
    "alice",
    "\0alice\0a-secret\0",
    "\0alice\0a-secret\0more\0and more",
    "\0alice\0a-secret ",
    "\0Alice\0a-secret",
    "\0\0",
    "x\0\0",
]
SCRAM_MESSAGES = [
    "n,,n=user,r=abc",
    "n,a=user,n=user,r=abc",
    "n,a=other,n=user,r=abc",
    "y,,n=user,r=abc",
    "p=tls-unique,,n=user,r=abc",
    "n,,n=,r=abc",
    "n,,n=user,r=",
    "n,,n=us=2Cer,r=abc",
    "n,,n=us=er,r=abc",
    "n,,n=user,r=a b",
    "n,,n=user,r=abc,tokenauth=true",
    "n,,n=user,r=abc,x=1,y=2",
    "n,,n=user,r=abc,x=",
    "n,,r=abc,n=user",
    "n=user,r=abc",
    "",
    "n,,n=user",
    "n,,n=user,r=abc,",
    "N,,n=user,r=abc",
    "n,,n=us\u00e9r,r=abc",
    "n,,n=user,r=abc\n",
    "n,,n=nobody,r=abc",
    "n,,n=user,r=abc,x1=1",
    "n,,n=user,r=a=b",
]
SCRAM_LAST = ["c=biws,r=abc,p=AAAA", "", "c=biws,p=AAAA", "n,,n=user,r=abc", "c=,r=,p=", "x"]


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def token(claims: object, header: object = None, signature: str = "") -> str:
    return f"{part({'alg': 'none'} if header is None else header)}.{part(claims)}.{signature}"


def bearer(text: str, before: str = "n,,", more: str = "") -> str:
    return f"{before}\x01auth=Bearer {text}\x01{more}\x01"


def unsecured(now_s: int) -> list[tuple[str, list[str]]]:
    """Options of the login module, and messages."""
    good = {"sub": "alice", "iat": now_s - 60, "exp": now_s + 10**8}
    skew = 'unsecuredValidatorAllowableClockSkewMs="100000"'
    scope = 'unsecuredValidatorRequiredScope="read write"'
    tokens: list[tuple[str, str]] = [
        ("", token(good)),
        ("", token({**good, "sub": ""})),
        ("", token({**good, "sub": "  "})),
        ("", token({**good, "exp": now_s - 60, "iat": now_s - 90})),
        ("", token({**good, "iat": now_s + 10**7})),
        ("", token({**good, "iat": now_s + 10**8 + 1})),
        ("", token({**good, "exp": "x"})),
        ("", token({"sub": "alice"})),
        ("", token({"exp": now_s + 10**8})),
        ("", token({"sub": "alice", "exp": now_s + 10**8})),
        ("", token({**good, "exp": now_s + 10**8 + 0.5})),
        ("", token(good, {"alg": "HS256"})),
        ("", token(good, {"alg": "None"})),
        ("", token(good, signature="AAAA")),
        ("", token([])),
        ("", token(good)[:-1]),
        ("", "a.b."),
        ("", "x"),
        ("", token(good) + "."),
        (skew, token({**good, "exp": now_s - 60, "iat": now_s - 90})),
        (skew, token({**good, "iat": now_s + 50})),
        (scope, token({**good, "scope": ["read", "write", "other"]})),
        (scope, token({**good, "scope": "read write"})),
        (scope, token(good)),
        ('unsecuredValidatorPrincipalClaimName="name"', token({**good, "name": "bob"})),
        ('unsecuredValidatorPrincipalClaimName="name"', token(good)),
        ('unsecuredValidatorScopeClaimName="s" unsecuredValidatorRequiredScope="read"', token({**good, "s": "read"})),
    ]
    valid = token(good)
    messages = [(options, [bearer(each)]) for options, each in tokens]
    messages += [("", [bearer("x"), "\x01"]), (scope, [bearer(valid), "\x01"])]
    messages += [
        ("", [each])
        for each in (
            bearer(valid, "n,a=alice,"),
            bearer(valid, "n,a=bob,"),
            bearer(valid, "y,,"),
            bearer(valid, "n,"),
            bearer(valid, more="k=v\x01other=two words\x01"),
            bearer(valid, more="k=\x01"),
            bearer(valid, more="k1=v\x01"),
            bearer(valid).replace("Bearer", "bearer"),
            bearer(valid).replace("Bearer", "Basic"),
            bearer(valid).replace("auth", "nope"),
            bearer(valid)[:-1],
            bearer(valid) + "x",
            "",
            "\x01",
            bearer(valid).replace("Bearer ", "Bearer"),
        )
    ]
    return messages


def cases(now_s: int) -> list[tuple[str, list[str]]]:
    """Every case: kind and arguments."""
    users = f'{PLAIN} required user_alice="a-secret";'
    found: list[tuple[str, list[str]]] = [("property", [text]) for text in JAAS]
    found += [("file", list(each)) for each in FILES]
    found += [("plain", [users, message]) for message in PLAIN_MESSAGES]
    found += [("scram", ["pencil", message]) for message in SCRAM_MESSAGES]
    found += [("scram", ["pencil", "n,,n=user,r=abc", message]) for message in SCRAM_LAST]
    found += [("unsecured", [f"{OAUTHBEARER} required {options};", *messages]) for options, messages in unsecured(now_s)]
    return found


def capture() -> None:
    """Run and write."""
    now_s = int(time.time())
    tried = cases(now_s)
    lines = [" ".join([kind, *(base64.b64encode(each.encode()).decode() for each in texts)]) for kind, texts in tried]
    command = ["java", "-cp", f"{kafka_jars()}/*", str(FILE.parent / "SaslAnswers.java")]
    result = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout.splitlines()
    provenance = "Apache Kafka 4.3.1: JaasConfig and the SaslServers of kafka-clients; asked by python -m tests.golden capture sasl_answers"
    rows = [[kind, texts, answer] for (kind, texts), answer in zip(tried, result, strict=True)]
    written = ",\n".join(json.dumps(row) for row in rows)
    FILE.write_text(f'{{"provenance": {json.dumps(provenance)}, "now_s": {now_s}, "cases": [\n{written}\n]}}\n')
