"""Names of cipher suites: IANA's, which Java and Kafka use, and OpenSSL's, which Python's ssl wants.

Python cannot choose suites of TLS 1.3 before 3.15. They are recognized, and decide whether TLS 1.3 is served.
"""

from __future__ import annotations

from typing import Final

TLS_1_3: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)  # fmt: skip

_EXCHANGES: Final = {
    "TLS_ECDHE_ECDSA_WITH_": "ECDHE-ECDSA-", "TLS_ECDHE_RSA_WITH_": "ECDHE-RSA-", "TLS_DHE_RSA_WITH_": "DHE-RSA-", "TLS_RSA_WITH_": "",
}  # fmt: skip
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}

#: IANA name -> OpenSSL name of suites of TLS 1.2. Names of suites that do not exist harm nothing: OpenSSL leaves them out.
TLS_1_2: Final = {
    exchange + cipher: f"{other_exchange}{other}" for exchange, other_exchange in _EXCHANGES.items() for cipher, other in _CIPHERS.items()
}
