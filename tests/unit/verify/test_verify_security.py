"""verify and bench connect with librdkafka as every other command does with our client."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tidelog.client.security import parse
from tidelog.verify.librdkafka_security import security_config
from tidelog.verify.workload import VerifyError

PKI = Path(__file__).resolve().parents[1] / "client" / "pki"
KEY_PASSWORD = "open-sesame"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="anna" password="s3cr3t";'


def pem(name: str, kind: str) -> str:
    text = (PKI / name).read_text()
    begin, end = f"-----BEGIN {kind}-----", f"-----END {kind}-----"
    return begin + text.partition(begin)[2].partition(end)[0] + end


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "anna",
                "sasl.password": "s3cr3t",
            },
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(PKI / "ca.pem"),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(PKI / "client.pem"),
                "ssl.key.password": KEY_PASSWORD,
                "ssl.endpoint.identification.algorithm": "",
            },
            {
                "security.protocol": "SSL",
                "ssl.ca.location": str(PKI / "ca.pem"),
                "ssl.key.location": str(PKI / "client.pem"),
                "ssl.certificate.location": str(PKI / "client.pem"),
                "ssl.key.password": KEY_PASSWORD,
                "ssl.endpoint.identification.algorithm": "none",
            },
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": PLAIN,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": pem("ca.pem", "CERTIFICATE"),
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "anna",
                "sasl.password": "s3cr3t",
                "ssl.ca.pem": pem("ca.pem", "CERTIFICATE"),
                "ssl.endpoint.identification.algorithm": "https",
            },
        ),
    ],
    ids=["plaintext", "sasl", "tls with files", "sasl and tls with pem"],
)
def test_the_properties_of_a_client_in_librdkafkas_words(given: dict[str, str], expected: dict[str, str]) -> None:
    config = security_config(parse(given))
    assert config == expected
    # It reads keys and certificates when a client is made, and refuses unknown settings.
    Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **config})


def test_a_setting_that_librdkafka_lacks_is_refused() -> None:
    with pytest.raises(VerifyError, match=r"ssl\.enabled\.protocols"):
        security_config(parse({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.3"}))
