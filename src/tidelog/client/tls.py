"""A TLS context out of settings: what is trusted, and what a client shows of itself."""

import ssl
import tempfile
from pathlib import Path

from tidelog.client.security import BadSecurity, Tls


def tls_context(tls: Tls) -> ssl.SSLContext:
    """BadSecurity if a store cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = tls.oldest, tls.newest
    context.check_hostname = tls.checks_host
    try:
        if tls.trusted is None and tls.trusted_file is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cafile=tls.trusted_file, cadata=tls.trusted)
    except (OSError, ssl.SSLError) as error:
        raise BadSecurity(
            f"trusted certificates cannot be read from {tls.trusted_file or 'the PEM given'}: {_why(error)}"
        ) from None
    try:
        if tls.key_file is not None:
            context.load_cert_chain(tls.key_file, password=tls.key_password or _no_password)
        elif tls.key is not None and tls.certificates is not None:
            _load_given_key(context, tls.key, tls.certificates, tls.key_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise BadSecurity(
            f"key and certificate cannot be read from {tls.key_file or 'the PEM given'}: {_why(error)}"
        ) from None
    return context


def _load_given_key(context: ssl.SSLContext, key: str, certificates: str, password: str | None) -> None:
    """OpenSSL takes a key from files only: one that nobody else can read, and that is gone at once."""
    with tempfile.TemporaryDirectory(prefix="tidelog-") as folder:
        path = Path(folder) / "key.pem"
        path.touch(mode=0o600)
        path.write_text(f"{key}\n{certificates}\n")
        context.load_cert_chain(path, password=password or _no_password)


def _no_password() -> str:
    """Otherwise OpenSSL asks at the terminal, and a job has none."""
    raise ValueError("the key is encrypted, and ssl.key.password is missing")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not a valid PEM file").lower().replace("_", " ")
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
