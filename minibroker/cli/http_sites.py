"""The HTTP sites of `minibroker serve`: their options, which machines may reach them, and their server.

Each site has `--NAME-port`, `--NAME-host` and `--NAME-name`. A new site is a row of `_SITES`; its module is imported only if its port is
set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click

from minibroker.config.listeners import is_loopback
from minibroker.errors import ConfigurationError
from minibroker.extras import install_command

if TYPE_CHECKING:
    from minibroker.config.broker_config import BrokerConfig
    from minibroker.http.server import HttpServer, HttpSite
    from minibroker.metrics.meter import Meter
    from minibroker.registry.site import RegistrySite
    from minibroker.server.broker import Broker
    from minibroker.testing.lab.lab_broker import LabBroker
    from minibroker.testing.recording import RequestObserver

    Served = Broker | LabBroker

Command = Callable[..., Any]
LOOPBACK: Final = "127.0.0.1"
_CONSOLE_REGISTRY_HELP: Final = "Let the console decode records with the schemas of this registry.  [default: that of --registry-port]"
_OPTIONS_KEY: Final = "minibroker.cli.http_sites"  #: the key of the options in the context


class Site(NamedTuple):
    """A kind of site."""

    name: str
    make: Callable[[Served, Mapping[str, Any], Meter | None], HttpSite]  #: (broker, options of the command line, its counters)
    port_help: str
    host_help: str
    power: str  #: what other machines get from the site: "lets other machines {power}"
    advice: str = ""  #: what to do beside a secured listener; "": leave it on loopback
    host_name_option: str = ""  #: adds a host name, if it is not --NAME-name
    asks_for_login: bool = False  #: whether visitors must log in if a listener is secured
    needs_users: bool = False  #: whether they must only if a listener has logins, or there is an authorizer
    has_tls: bool = False  #: whether there is --NAME-tls

    @property
    def names_option(self) -> str:
        """The option that adds a host name."""
        return self.host_name_option or f"--{self.name}-name"


def _lab(broker: Served, _options: Mapping[str, Any], _meter: Meter | None) -> HttpSite:
    return cast("LabBroker", broker).site  # `serve` makes a LabBroker if there is a lab


def _registry(broker: Served, options: Mapping[str, Any], _meter: Meter | None) -> HttpSite:
    if find_spec("avro") is None:
        raise ConfigurationError(f"--registry-port needs avro: {install_command('registry')}")
    hosted = getattr(broker, "hosted", None)
    site: RegistrySite = options[_SERVED_REGISTRY].site(broker) if hosted is None else hosted.registry.site
    has_users = any(each.sasl is not None for each in _running(broker).listeners)
    site.asks_always = has_users and not is_loopback(options.get("registry_host", LOOPBACK))
    return site


def _running(broker: Served) -> Broker:
    """Return the current broker: a lab may replace it."""
    hosted = getattr(broker, "hosted", None)
    return cast("Broker", broker if hosted is None else hosted.broker)


def _console(broker: Served, options: Mapping[str, Any], meter: Meter | None) -> HttpSite:
    try:
        from minibroker.console.mounting import console_of  # noqa: PLC0415  most brokers have no console
    except ImportError as error:
        raise ConfigurationError(f"--console-port needs the extra console: {install_command('console')} ({error})") from None
    is_read_only = bool(options.get("console_read_only"))
    return console_of(
        broker,
        options[_OBSERVER],
        meter,
        is_read_only=is_read_only,
        registry=options.get(_REGISTRY),
        registry_url=options[_REGISTRY_URL],
        other_registry=options.get("console_registry"),
    )


_OBSERVER: Final = "console_observer"
_SERVED_REGISTRY: Final = "served_registry"
_REGISTRY: Final = "registry"  #: that of the site of this name, if there is one
_REGISTRY_URL: Final = "registry_url"


def _metrics(broker: Served, options: Mapping[str, Any], meter: Meter | None) -> HttpSite:
    try:
        from minibroker.metrics.site import MetricsSite, scraper_of  # noqa: PLC0415  most brokers have no metrics
    except ImportError as error:
        raise ConfigurationError(f"--metrics-port needs prometheus-client: {install_command('metrics')}") from error
    hosted = getattr(broker, "hosted", None)
    counters = cast("Meter", meter) if hosted is None else hosted.meter
    return MetricsSite(scraper_of(lambda: _running(broker), counters, options["metrics_names"]))


_SITES: Final = (
    Site(
        "lab",
        _lab,
        "Let tests change the broker over HTTP on this port, 0 for a free one: faults, time, data. See 'minibroker lab'.",
        f"Address of the lab, if not {LOOPBACK}. Any process that can connect to it controls the broker.",
        "control the broker",
    ),
    Site(
        "metrics",
        _metrics,
        "Serve /metrics for Prometheus on this port, 0 for a free one: minibroker.metrics.port. See docs/metrics.md.",
        f"Address of /metrics, if not {LOOPBACK}: minibroker.metrics.host.",
        "read the names of topics and groups",
        f"use --metrics-token-file, or leave the metrics on {LOOPBACK}",
        "--metrics-host-name",
        has_tls=True,
    ),
    Site(
        "registry",
        _registry,
        "Serve a schema registry with Confluent's API on this port, 0 for a free one. 8081 is usual.",
        f"Address of the schema registry, if not {LOOPBACK}. If a listener requires logins, the registry does as well.",
        "change schemas",
        asks_for_login=True,
        needs_users=True,
        has_tls=True,
    ),
    Site(
        "console",
        _console,
        "Show the broker in a browser on this port, 0 for a free one. See docs/console.md.",
        f"Address of the console, if not {LOOPBACK}. Without a secured listener, any process that can connect to it may change data.",
        "use the broker",
        asks_for_login=True,
        has_tls=True,
    ),
)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value not in (None, ()) and value is not False:  # port 0 is a value
        ctx.meta.setdefault(_OPTIONS_KEY, {})[param.name] = value


def _option(*names: str, **attributes: Any) -> Callable[[Command], Command]:
    return click.option(*names, expose_value=False, is_eager=True, callback=_remember, **attributes)


def http_options(function: Command) -> Command:
    """Add the options of all sites to a command. Their values are not passed to it: `HttpSites.of_command` has them."""
    options = []
    for site in _SITES:
        name = site.name
        options += [
            _option(f"--{name}-port", type=click.IntRange(0, 65535), metavar="PORT", help=site.port_help),
            _option(f"--{name}-host", metavar="HOST", help=site.host_help),
            _option(
                site.names_option, f"{name}_name", multiple=True, metavar="NAME",
                help=f"Host name (with a dot) that other machines use for --{name}-host.",
            ),
        ]  # fmt: skip
        if site.has_tls:
            options.append(
                _option(
                    f"--{name}-tls", is_flag=True, help=f"Serve the {name} over HTTPS, with the certificate of the first listener with TLS."
                )
            )
    options += [
        _option("--metrics-names", metavar="NAMES,...", help="Sets of metric names that /metrics serves: minibroker.metrics.names."),
        _option(
            "--metrics-token-file", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
            help="Serve /metrics only to clients that send the token in this file: Authorization: Bearer TOKEN.",
        ),
    ]  # fmt: skip
    options.append(_option("--console-registry", metavar="URL", help=_CONSOLE_REGISTRY_HELP))
    options.append(_option("--console-read-only", is_flag=True, help="Let the console show everything and change nothing."))
    for option in reversed(options):
        function = option(function)
    return function


class HttpSites:
    """The sites of one broker, and where they listen."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._meter: Meter | None = None
        self._server: HttpServer | None = None

    @staticmethod
    def place_of_command(ctx: click.Context, name: str) -> tuple[str, int] | None:
        """Return the address of a site in the options of a command; None if it has none, or a free port."""
        options = ctx.meta.get(_OPTIONS_KEY, {})
        port: int = options.get(f"{name}_port", 0)
        return (options.get(f"{name}_host", LOOPBACK), port) if port else None

    @classmethod
    def of_command(cls, ctx: click.Context) -> HttpSites:
        """Return the sites of the options of a command. UsageError: an option of a site without its port."""
        options = ctx.meta.get(_OPTIONS_KEY, {})
        for site in _SITES:
            of_site = ((f"--{site.name}-{each}", f"{site.name}_{each}") for each in ("host", "tls"))
            for option, value in (*of_site, (site.names_option, f"{site.name}_name")):
                if site.name != "metrics" and f"{site.name}_port" not in options and value in options:  # a property may have its port
                    raise click.UsageError(f"{option} needs --{site.name}-port")
        for name in ("console_read_only", "console_registry"):
            if name in options and "console_port" not in options:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --console-port")
        return cls(options)

    def follow(self, config: BrokerConfig) -> None:
        """Take the properties of the sites where no option overrides them."""
        options = self._options
        if config.minibroker_metrics_port >= 0:
            options.setdefault("metrics_port", config.minibroker_metrics_port)
        options.setdefault("metrics_host", config.minibroker_metrics_host)
        names = options.get("metrics_names")
        config.has_schema_registry = "registry" in self
        options["metrics_names"] = config.minibroker_metrics_names if names is None else tuple(map(str.strip, names.split(",")))

    def __contains__(self, name: str) -> bool:
        return f"{name}_port" in self._options

    def check(self, config: BrokerConfig) -> None:
        """Refuse sites that other machines can reach, if a listener authenticates clients: a site does not.

        Raises:
            ConfigurationError: the message names the option.
        """
        secured = [listener for listener in config.listeners if listener.protocol != "PLAINTEXT"]
        if not secured and not config.authorizer_class_name:
            return
        has_users = bool(config.authorizer_class_name) or any(each.protocol.startswith("SASL") for each in secured)
        what = f"listener {secured[0].name} is secured" if secured else "access control is on"
        for site in _SITES:
            host = self._options.get(f"{site.name}_host", LOOPBACK)
            asks_for_login = site.asks_for_login and (has_users or not site.needs_users)
            protects_itself = asks_for_login or f"{site.name}_token_file" in self._options
            if site.name in self and not is_loopback(host) and not protects_itself:
                advice = site.advice or f"leave the {site.name} on {LOOPBACK}"
                raise ConfigurationError(f"--{site.name}-host: {host} lets other machines {site.power}, but {what}: {advice}")

    def observer(self) -> RequestObserver | None:
        """Return the observer of requests for the console, or None without a console."""
        if "console" not in self:
            return None
        if _OBSERVER not in self._options:
            from minibroker.console.observer import Observer  # noqa: PLC0415  most brokers have no console

            self._options[_OBSERVER] = Observer()
        observer: RequestObserver = self._options[_OBSERVER]
        return observer

    def hooks(self) -> dict[str, Any]:
        """Return arguments of server.Broker that the sites need."""
        hooks: dict[str, Any] = {}
        observer = self.observer()
        if observer is not None:
            from minibroker.testing.recording import RecordingDispatcher  # noqa: PLC0415  as above

            hooks["make_dispatcher"] = partial(RecordingDispatcher, observer=observer)
        if "registry" in self:
            from minibroker.registry.mounting import ServedRegistry  # noqa: PLC0415  most brokers have no registry

            served = self._options[_SERVED_REGISTRY] = ServedRegistry()
            hooks["make_registry"] = served.validation.make_registry
        if "metrics" in self or observer is not None:
            from minibroker.metrics.meter import Meter  # noqa: PLC0415  most brokers count nothing

            self._meter = Meter(with_commits="kminion" in self._options["metrics_names"])
            dispatcher = {name: hook for name, hook in hooks.items() if name == "make_dispatcher"}
            hooks |= self._meter.parts(**dispatcher)
        return hooks

    async def start(self, broker: Served) -> None:
        """Serve the sites of a running broker. ConfigurationError: they cannot listen."""
        sites = [site for site in _SITES if site.name in self]
        if not sites:
            return
        from minibroker.http import server as http  # noqa: PLC0415  most brokers have no site
        from minibroker.http import tls  # noqa: PLC0415  likewise

        server, options = http.HttpServer(), self._options | {_REGISTRY_URL: lambda: self.urls.get("registry", "")}
        with_tls = [site.name for site in sites if f"{site.name}_tls" in options]
        try:
            context = tls.https_context(lambda: _running(broker).listeners) if with_tls else None
        except ConfigurationError as error:
            raise ConfigurationError(f"--{with_tls[0]}-tls: {error}") from None
        for site in sites:
            name = site.name
            place = http.Place(
                options.get(f"{name}_host", LOOPBACK),
                options[f"{name}_port"],
                tuple(options.get(f"{name}_name", ())),
                site.names_option,
                _token_in(options.get(f"{name}_token_file")),
                context if name in with_tls else None,
            )
            made = site.make(broker, options, self._meter)
            if name == "registry":
                options[_REGISTRY] = cast("RegistrySite", made).registry
            server.mount(made, place)
        await server.start()
        self._server = server
        hosted = getattr(broker, "hosted", None)
        if hosted is not None and "registry" in self:
            hosted.registry.served_at(server.url("registry"))

    @property
    def urls(self) -> dict[str, str]:
        """The URL of each site, after `start`."""
        return {} if self._server is None else {name: self._server.url(name) for name in self._server.names}

    async def stop(self) -> None:
        """Close all sites; does nothing if there is none."""
        if self._server is not None:
            await self._server.stop()


def _token_in(path: str | None) -> str | None:
    """Return the token in a file. ConfigurationError: there is none."""
    if path is None:
        return None
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--metrics-token-file: {path}: {error}") from error
    if not token:
        raise ConfigurationError(f"--metrics-token-file: {path} is empty")
    return token
