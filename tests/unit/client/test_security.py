"""Which settings of TLS and SASL are taken, which are refused, and that no secret is ever told."""

import pickle
from pathlib import Path

import pytest

from tidelog.client.security import BadSecurity, Security, parse
from tidelog.client.tls import tls_context

PKI = Path(__file__).parent / "pki"
PASSWORD = "s3cr3t-of-mine"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} required username="anna" password="{PASSWORD}";',
}
SSL = {"security.protocol": "ssl"}


def test_plaintext_needs_nothing() -> None:
    assert parse({}) is None
    assert parse({"security.protocol": "plaintext", "sasl.mechanism": "GSSAPI"}) is None


def test_credentials_are_read_and_not_shown() -> None:
    found = parse(SASL)
    assert found is not None
    assert found.credentials is not None
    assert found.tls is not None
    assert (found.credentials.mechanism, found.credentials.username) == ("SCRAM-SHA-512", "anna")
    assert found.credentials.password == PASSWORD
    assert found.tls.checks_host
    assert PASSWORD not in repr(found)
    assert "[hidden]" in repr(found)
    again: Security = pickle.loads(pickle.dumps(found))
    assert again == found
    assert PASSWORD not in repr(again)


@pytest.mark.parametrize(
    ("written", "meant"),
    [(r'"a \"b\" \\c"', r'a "b" \c'), ("plain", "plain"), ('"with; and = and ,"', "with; and = and ,")],
)
def test_a_password_as_jaas_writes_it(written: str, meant: str) -> None:
    found = parse(SASL | {"sasl.jaas.config": f"\n {SCRAM} required\n username=anna\n password={written} ; \n"})
    assert found is not None
    assert found.credentials is not None
    assert found.credentials.password == meant


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"security.protocol": "TLS"}, "not one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.mechanism": ""}, "GSSAPI"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "is not supported"),
        ({"sasl.mechanism": "PLAIN"}, "PlainLoginModule"),
        ({"sasl.jaas.config": ""}, "is missing: .*ScramLoginModule required"),
        ({"sasl.jaas.config": f'{SCRAM} required password="{PASSWORD}";'}, "no username"),
        ({"sasl.jaas.config": f'{SCRAM} required username="anna" password="{PASSWORD}"'}, "must have the form"),
        ({"sasl.jaas.config": f'{SCRAM} required username="a" password="{PASSWORD}" tokenauth="true";'}, "tokenauth"),
        ({"sasl.login.callback.handler.class": "com.example.Login"}, "Java classes"),
        ({"ssl.engine.factory.class": "com.example.Tls"}, "Java classes"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "remove it"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "neither https nor empty"),
        ({"ssl.truststore.location": "/trust.jks"}, "ssl.truststore.type=JKS is not supported: use PEM .*keytool"),
        ({"ssl.truststore.location": "/t.p12", "ssl.truststore.type": "PKCS12"}, "PKCS12 is not supported: use PEM"),
        ({"ssl.keystore.location": "/k.p12", "ssl.keystore.type": "PKCS12"}, "openssl pkcs12"),
        (
            {"ssl.truststore.location": "/t", "ssl.truststore.type": "PEM", "ssl.truststore.password": PASSWORD},
            "no meaning for PEM",
        ),
        (
            {"ssl.truststore.location": "/t", "ssl.truststore.certificates": "x", "ssl.truststore.type": "PEM"},
            "both set",
        ),
        ({"ssl.keystore.key": PASSWORD, "ssl.keystore.type": "PEM"}, "must be set together"),
    ],
)
def test_what_is_refused_names_the_setting_and_tells_no_secret(changed: dict[str, str], words: str) -> None:
    with pytest.raises(BadSecurity, match=words) as caught:
        parse(SASL | changed, "kafka.")
    assert str(caught.value).startswith("kafka.")
    assert "\n" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ssl.truststore.location": "/no/such.pem", "ssl.truststore.type": "PEM"}, "/no/such.pem: No such file"),
        ({"ssl.truststore.certificates": "no PEM", "ssl.truststore.type": "PEM"}, "the PEM given"),
        ({"ssl.keystore.location": str(PKI / "ca.pem"), "ssl.keystore.type": "PEM"}, "key and certificate"),
        ({"ssl.keystore.location": str(PKI / "client.pem"), "ssl.keystore.type": "PEM"}, "ssl.key.password is missing"),
        (
            {
                "ssl.keystore.location": str(PKI / "client.pem"),
                "ssl.keystore.type": "PEM",
                "ssl.key.password": PASSWORD,
            },
            "client.pem",
        ),
    ],
)
def test_a_store_that_cannot_be_read_is_named(changed: dict[str, str], words: str) -> None:
    found = parse(SSL | changed)
    assert found is not None
    assert found.tls is not None
    with pytest.raises(BadSecurity, match=words) as caught:
        tls_context(found.tls)
    assert PASSWORD not in str(caught.value)
