"""A client of any schema registry with Confluent's API, by its URL.

    client = RegistryClient("http://localhost:8081")
    client.get("/subjects")

Login and TLS come from properties with the names of Confluent's clients: `basic.auth.user.info`,
`bearer.auth.token`, `ssl.ca.location` and the other `ssl.` properties, with or without
`schema.registry.` before them.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from minibroker.client.errors import ClientError, TimedOut
from minibroker.errors import ConfigurationError

PREFIX: Final = "schema.registry."
URL: Final = "schema.registry.url"
_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ACCEPTED: Final = f"{_MEDIA_TYPE}, application/vnd.schemaregistry+json, application/json"
_ANSWER_MAX: Final = 64 << 20  #: bytes; a list of all schemas can be large
_REASON_MAX: Final = 4_000  #: characters


class RegistryUnavailable(ClientError):  # noqa: N818  as its siblings in client/errors.py
    """There is no registry at a URL, or it does not answer as one."""


class RegistryRefused(ClientError):  # noqa: N818  likewise
    """The registry answered with an error."""

    def __init__(self, status: int, error_code: int, message: str) -> None:
        super().__init__(f"{message} (error {error_code})")
        self.status = status
        self.error_code = error_code
        self.message = message


def path(*parts: object) -> str:
    """The path of a resource, with its parts quoted: `path("subjects", "a/b")`."""
    return "".join(f"/{quote(str(each), safe='')}" for each in parts)


class RegistryClient:
    """Sends requests to one registry. It fetches nothing from elsewhere: redirects are not followed."""

    def __init__(self, url: str, properties: Mapping[str, str] | None = None, *, timeout_s: float = 30.0) -> None:
        """Raises ConfigurationError: the URL or a property is invalid."""
        if "://" not in url:
            url = f"http://{url}"
        wrong = ConfigurationError(f"{url} is not a URL of a schema registry, such as http://localhost:8081")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise wrong from None
        if parts.scheme not in {"http", "https"} or parts.hostname is None or port == 0:
            raise wrong
        address = parts.hostname if ":" not in parts.hostname else f"[{parts.hostname}]"
        self.url = f"{parts.scheme}://{address}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
        own = _own_properties(properties or {})
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else own.get("basic.auth.user.info")
        self._headers = {"Accept": _ACCEPTED, "Content-Type": _MEDIA_TYPE}
        if login:
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        elif own.get("bearer.auth.token"):
            self._headers["Authorization"] = f"Bearer {own['bearer.auth.token']}"
        self._timeout_s = timeout_s
        self._opener = _opener(_tls(own) if parts.scheme == "https" else None)

    def get(self, resource: str, **query: object) -> Any:
        """GET. None and False are left out of the query."""
        return self.send("GET", resource, None, **query)

    def post(self, resource: str, body: object, **query: object) -> Any:
        """POST."""
        return self.send("POST", resource, body, **query)

    def delete(self, resource: str, **query: object) -> Any:
        """DELETE."""
        return self.send("DELETE", resource, None, **query)

    def send(self, method: str, resource: str, body: object, **query: object) -> Any:
        """Return the JSON of the answer.

        Raises:
            RegistryRefused: the registry reports an error.
            RegistryUnavailable: it cannot be reached, or is not a registry.
            TimedOut: it does not answer in time.
        """
        given = {name: str(each).lower() if isinstance(each, bool) else each for name, each in query.items() if each not in (None, False)}
        data = None if body is None else json.dumps(body).encode()
        target = f"{self.url}{resource}" + (f"?{urlencode(given)}" if given else "")
        request = Request(target, data, self._headers, method=method)  # noqa: S310  http or https, see above
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                content = answer.read(_ANSWER_MAX + 1)
        except HTTPError as error:
            raise self._refusal(error) from error
        except URLError as error:
            raise self._unreachable(error.reason) from error
        except TimeoutError as error:
            raise self._unreachable(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise RegistryUnavailable(f"{self.url}: the connection broke: {str(error) or type(error).__name__}") from error
        if len(content) > _ANSWER_MAX:
            raise RegistryUnavailable(f"{self.url}{resource}: the answer has more than {_ANSWER_MAX >> 20} MB")
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise RegistryUnavailable(f"{self.url} is not a schema registry: its answer is not JSON") from error

    def _unreachable(self, reason: object) -> ClientError:
        if isinstance(reason, TimeoutError):
            return TimedOut(f"the schema registry at {self.url} did not answer within {self._timeout_s:g} s")
        if isinstance(reason, ssl.SSLCertVerificationError):
            return RegistryUnavailable(f"{self.url}: its certificate is not trusted: {reason.verify_message}. Give its CA: --registry-ca")
        words = getattr(reason, "strerror", None) or reason
        return RegistryUnavailable(f"no schema registry at {self.url}: {words}. 'minibroker serve --registry-port 8081' starts one")

    def _refusal(self, error: HTTPError) -> ClientError:
        try:
            found = json.loads(error.read(_REASON_MAX * 8))
            return RegistryRefused(error.code, int(found["error_code"]), str(found["message"])[:_REASON_MAX])
        except (ValueError, KeyError, TypeError, RecursionError, OSError, http.client.HTTPException):  # the last two: the connection broke
            pass
        if error.code in {401, 403}:
            return RegistryRefused(error.code, error.code, f"{self.url}: the registry wants another login: give --registry-user")
        return RegistryUnavailable(f"{self.url} is not a schema registry: HTTP {error.code} {error.reason}")


def _own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of the registry's client: names with the prefix, without it."""
    found = {name: value for name, value in properties.items() if name in {"basic.auth.user.info", "bearer.auth.token"}}
    return found | {name.removeprefix(PREFIX): value for name, value in properties.items() if name.startswith(PREFIX)}


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any, **_options: Any) -> None:
        return None


def _opener(context: ssl.SSLContext | None) -> OpenerDirector:
    handlers: list[Any] = [_NoRedirects, ProxyHandler({})]
    return build_opener(*handlers, *([] if context is None else [HTTPSHandler(context=context)]))


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    from minibroker.client.security import settings, tls  # noqa: PLC0415  most registries have no TLS

    found = settings.read_settings(
        {name: value for name, value in properties.items() if name.startswith("ssl.")} | {"security.protocol": "SSL"}
    ).tls
    if found is None:
        raise ConfigurationError("the registry's TLS has no settings")
    return tls.make_context(found)
