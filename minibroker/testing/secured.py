"""`minibroker.secure`: a broker under test that is as closed as one of `minibroker serve --secure`."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, overload

from minibroker.testing.broker import Broker
from minibroker.testing.broker_process import BrokerProcess
from minibroker.testing.broker_thread import BrokerThread
from minibroker.testing.options import BrokerError

ADMIN: Final = "admin"
_FORMS: Final[dict[str, type[BrokerThread | BrokerProcess | Broker]]] = {
    "thread": BrokerThread,
    "process": BrokerProcess,
    "async": Broker,
}


@overload
def secure(
    users: Mapping[str, str] | None = None,
    acls: Iterable[str] = (),
    *,
    super_users: Iterable[str] = (),
    mtls: bool = False,
    form: Literal["thread"] = "thread",
    **options: Any,
) -> BrokerThread: ...
@overload
def secure(
    users: Mapping[str, str] | None = None,
    acls: Iterable[str] = (),
    *,
    super_users: Iterable[str] = (),
    mtls: bool = False,
    form: Literal["process"],
    **options: Any,
) -> BrokerProcess: ...
@overload
def secure(
    users: Mapping[str, str] | None = None,
    acls: Iterable[str] = (),
    *,
    super_users: Iterable[str] = (),
    mtls: bool = False,
    form: Literal["async"],
    **options: Any,
) -> Broker: ...
def secure(
    users: Mapping[str, str] | None = None,
    acls: Iterable[str] = (),
    *,
    super_users: Iterable[str] = (),
    mtls: bool = False,
    form: str = "thread",
    **options: Any,
) -> BrokerThread | BrokerProcess | Broker:
    """Return a broker for a test with TLS, logins and access control. It does not run yet.

        with minibroker.secure(users={"alice": "secret"}, acls=["alice allow READ TOPIC orders-*"]) as broker:
            consumer = Consumer(broker.client_config("confluent", user="alice") | {"group.id": "readers"})

    The user `admin` may do everything; all others only what an entry allows. The certificates are
    made for this broker.

    Args:
        users: passwords by name.
        acls: access control entries.
        super_users: further users who may do everything.
        mtls: also ask each client for a certificate, which `client_config` makes.
        form: "thread": beside the test; "process": in its own process; "async": in the event loop of the test, awaited.
        options: further arguments of BrokerThread.

    Returns:
        The broker: a BrokerThread, BrokerProcess or Broker by `form`.

    Raises:
        BrokerError: an argument is invalid, or the package cryptography is missing.
    """
    if form not in _FORMS:
        raise BrokerError(f"form {form!r} is not one of {', '.join(_FORMS)}")
    all_users = {ADMIN: secrets.token_urlsafe(18)} | dict(users or {})
    return _FORMS[form](users=all_users, super_users=[ADMIN, *super_users], acls=acls, tls=True, mtls=mtls, **options)
