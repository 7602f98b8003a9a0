"""The properties of a Kafka client in librdkafka's words."""

import ssl
from typing import Any

from tidelog.client.security import Security, Tls
from tidelog.verify.workload import VerifyError


def security_config(security: Security | None) -> dict[str, Any]:
    """Settings of librdkafka for a secured connection; VerifyError for a setting that it lacks."""
    if security is None:
        return {}
    config: dict[str, Any] = {"security.protocol": security.protocol.value}
    if security.credentials is not None:
        given = security.credentials
        config |= {"sasl.mechanism": given.mechanism, "sasl.username": given.username, "sasl.password": given.password}
    if security.tls is not None:
        config |= _tls_config(security.tls)
    return {name: str(value) for name, value in config.items() if value is not None}


def _tls_config(tls: Tls) -> dict[str, Any]:
    if (tls.oldest, tls.newest) != (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        raise VerifyError("ssl.enabled.protocols: librdkafka negotiates the version of TLS itself; leave it out")
    return {
        "ssl.ca.pem": tls.trusted,
        "ssl.ca.location": tls.trusted_file,
        "ssl.key.pem": tls.key,
        "ssl.certificate.pem": tls.certificates,
        # One file holds both, as Kafka's keystore of type PEM does.
        "ssl.key.location": tls.key_file,
        "ssl.certificate.location": tls.key_file,
        "ssl.key.password": tls.key_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host else "none",
    }
