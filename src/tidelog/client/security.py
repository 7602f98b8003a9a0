"""How a client shows who it is and knows whom it speaks to: Kafka's `security.protocol`, `sasl.*` and `ssl.*`.

Pure. What we do not speak is refused in one line that says what to use instead, and never passed over: a setting of
these that has no effect would be a hole.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidelog.client.errors import ClientError
from tidelog.client.scram import HASHES

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *HASHES)

_LOGIN_MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(HASHES, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_PEM: Final = "PEM"
_TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_JAVA_ONLY: Final = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "security.providers",
    "ssl.engine.factory.class",
    "ssl.provider",
)
_JAAS: Final = re.compile(
    r'\s*([\w.$]+)\s+required((?:\s+[\w.-]+\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;"]+))*)\s*;\s*', re.DOTALL
)
_JAAS_OPTION: Final = re.compile(r'([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))', re.DOTALL)


class BadSecurity(ClientError):
    """A setting that cannot be used; names it, and never tells a secret."""


class Secret(str):
    """Text that is not shown: in logs and errors it is what Kafka writes there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[hidden]"


class SecurityProtocol(Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    mechanism: str
    username: str
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Each store is a file or the PEM itself; without `trusted` the system's certificates are."""

    trusted: Secret | None = None
    trusted_file: str | None = None
    key: Secret | None = None
    certificates: Secret | None = None
    key_file: str | None = None
    key_password: Secret | None = None
    checks_host: bool = True
    oldest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Travels to executors: settings, and nothing that is open."""

    tls: Tls | None = None
    credentials: Credentials | None = None

    @property
    def protocol(self) -> SecurityProtocol:
        if self.credentials is None:
            return SecurityProtocol.SSL
        return SecurityProtocol.SASL_PLAINTEXT if self.tls is None else SecurityProtocol.SASL_SSL


def parse(settings: Mapping[str, str], prefix: str = "") -> Security | None:
    """From a client's properties, of which others are passed over; None for PLAINTEXT. `prefix` is for messages."""
    given = _Settings(settings, prefix)
    name = (given.text("security.protocol") or SecurityProtocol.PLAINTEXT.value).upper()
    try:
        protocol = SecurityProtocol(name)
    except ValueError:
        known = ", ".join(each.value for each in SecurityProtocol)
        raise BadSecurity(f"{prefix}security.protocol={name!r} is not one of {known}") from None
    if protocol is SecurityProtocol.PLAINTEXT:
        return None
    for java in _JAVA_ONLY:
        if given.text(java) is not None:
            raise BadSecurity(f"{prefix}{java} names Java classes, which this client cannot load: remove it")
    return Security(
        tls=_tls(given) if protocol.has_tls else None, credentials=_credentials(given) if protocol.has_sasl else None
    )


class _Settings:
    def __init__(self, settings: Mapping[str, str], prefix: str) -> None:
        self._settings = settings
        self.prefix = prefix

    def text(self, name: str) -> str | None:
        """None for what is not there, and for what is empty."""
        return self._settings.get(name, "").strip() or None

    def secret(self, name: str) -> Secret | None:
        found = self.text(name)
        return None if found is None else Secret(found)

    def is_empty(self, name: str) -> bool:
        return name in self._settings and not self._settings[name].strip()

    def refuse(self, name: str, why: str) -> BadSecurity:
        return BadSecurity(f"{self.prefix}{name}{why}")


def _credentials(given: _Settings) -> Credentials:
    # As in Kafka, who says nothing asks for Kerberos.
    mechanism = (given.text("sasl.mechanism") or "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise given.refuse("sasl.mechanism", f"={mechanism!r} is not supported: use {', '.join(MECHANISMS)}")
    jaas = given.secret("sasl.jaas.config")
    if jaas is None:
        raise given.refuse("sasl.jaas.config", f" is missing: {_jaas_form(mechanism)}")
    found = _JAAS.fullmatch(jaas)
    if found is None or found[1] != _LOGIN_MODULES[mechanism]:
        raise given.refuse("sasl.jaas.config", f" (hidden) must have the form {_jaas_form(mechanism)}")
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in _JAAS_OPTION.findall(found[2])
    }
    for name in ("username", "password"):
        if not options.get(name):
            raise given.refuse("sasl.jaas.config", f" (hidden) has no {name}: {_jaas_form(mechanism)}")
    if options.get("tokenauth", "false").lower() != "false":
        raise given.refuse("sasl.jaas.config", " (hidden) has tokenauth: use a password instead of a delegation token")
    return Credentials(mechanism=mechanism, username=options["username"], password=Secret(options["password"]))


def _jaas_form(mechanism: str) -> str:
    return f'{_LOGIN_MODULES[mechanism]} required username="…" password="…";'


def _tls(given: _Settings) -> Tls:
    if given.text("ssl.cipher.suites") is not None:
        raise given.refuse("ssl.cipher.suites", " cannot be set, because OpenSSL chooses the suites: remove it")
    algorithm = given.text("ssl.endpoint.identification.algorithm")
    if algorithm is not None and algorithm.lower() != "https":
        raise given.refuse("ssl.endpoint.identification.algorithm", f"={algorithm!r} is neither https nor empty")
    versions = [
        _version(given, each.strip()) for each in (given.text("ssl.enabled.protocols") or "TLSv1.2,TLSv1.3").split(",")
    ]
    trusted, trusted_file = given.secret("ssl.truststore.certificates"), given.text("ssl.truststore.location")
    _require_pem(
        given,
        "ssl.truststore",
        is_given=trusted is not None or trusted_file is not None,
        remedy="convert it: keytool -list -rfc -keystore STORE > STORE.pem",
    )
    key, certificates = given.secret("ssl.keystore.key"), given.secret("ssl.keystore.certificate.chain")
    key_file = given.text("ssl.keystore.location")
    _require_pem(
        given,
        "ssl.keystore",
        is_given=key is not None or certificates is not None or key_file is not None,
        remedy="convert PKCS12: openssl pkcs12 -in STORE.p12 -out STORE.pem",
    )
    if trusted is not None and trusted_file is not None:
        raise given.refuse("ssl.truststore.location", " and ssl.truststore.certificates are both set: remove one")
    if key_file is not None and (key is not None or certificates is not None):
        raise given.refuse("ssl.keystore.location", " and ssl.keystore.key are both set: remove one")
    if (key is None) != (certificates is None):
        raise given.refuse("ssl.keystore.key", " and ssl.keystore.certificate.chain must be set together")
    return Tls(
        trusted=trusted,
        trusted_file=trusted_file,
        key=key,
        certificates=certificates,
        key_file=key_file,
        key_password=given.secret("ssl.key.password"),
        checks_host=not given.is_empty("ssl.endpoint.identification.algorithm"),
        oldest=min(versions),
        newest=max(versions),
    )


def _version(given: _Settings, name: str) -> ssl.TLSVersion:
    if name not in _TLS_VERSIONS:
        raise given.refuse("ssl.enabled.protocols", f" names {name!r}: use TLSv1.2, TLSv1.3 or both")
    return _TLS_VERSIONS[name]


def _require_pem(given: _Settings, store: str, *, is_given: bool, remedy: str) -> None:
    if not is_given:
        return
    kind = (given.text(f"{store}.type") or "JKS").upper()
    if kind != _PEM:
        raise given.refuse(f"{store}.type", f"={kind} is not supported: use PEM ({remedy})")
    if given.text(f"{store}.password") is not None:
        raise given.refuse(f"{store}.password", " has no meaning for PEM: use ssl.key.password for the private key")
