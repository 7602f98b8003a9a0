"""TLS and SASL on real sockets: who is let in, who is not, and what an error says."""

import asyncio
import ssl
from pathlib import Path

import pytest
from tests.unit.client.toy_broker import ToyBroker
from tests.unit.client.toy_sasl import ToySasl

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import Connection, ConnectionSettings
from tidelog.client.errors import AuthenticationFailed, ConnectionFailed
from tidelog.client.security import parse

PKI = Path(__file__).parent / "pki"
PASSWORD = "s3cr3t-of-mine"
MODULES = {"PLAIN": "plain.PlainLoginModule"}


def sasl(mechanism: str, password: str = PASSWORD, *, protocol: str = "SASL_PLAINTEXT") -> ConnectionSettings:
    module = f"org.apache.kafka.common.security.{MODULES.get(mechanism, 'scram.ScramLoginModule')}"
    jaas = f'{module} required username="anna" password="{password}";'
    return secured({"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas})


def secured(settings: dict[str, str]) -> ConnectionSettings:
    trusted = {"ssl.truststore.location": str(PKI / "ca.pem"), "ssl.truststore.type": "PEM"}
    return ConnectionSettings(security=parse(trusted | settings))


def server_tls(*, asks_for_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PKI / "server.pem")
    if asks_for_certificate:
        context.load_verify_locations(PKI / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_the_right_password_is_let_in_and_a_wrong_one_is_not(mechanism: str) -> None:
    broker = ToyBroker()
    server = ToySasl(broker, "anna", PASSWORD)
    async with broker.serving(server_tls()):
        async with Client([broker.address], settings=sasl(mechanism, protocol="SASL_SSL")) as client:
            assert (await client.refresh([])).cluster_id == "toy"
        assert server.authenticated == 1
        with pytest.raises(AuthenticationFailed, match="refused authentication: Authentication failed") as caught:
            await Connection.open(broker.address, sasl(mechanism, "wr0ng", protocol="SASL_SSL"))
        assert "wr0ng" not in str(caught.value)


async def test_a_server_has_to_prove_that_it_knows_the_password() -> None:
    broker = ToyBroker()
    ToySasl(broker, "anna", PASSWORD, knows_password=False)
    async with broker.serving():
        with pytest.raises(AuthenticationFailed, match="failed to prove that"):
            await Connection.open(broker.address, sasl("SCRAM-SHA-256"))


async def test_a_mechanism_that_is_not_offered() -> None:
    broker = ToyBroker()
    ToySasl(broker, "anna", PASSWORD, mechanisms=("PLAIN",))
    async with broker.serving():
        with pytest.raises(AuthenticationFailed, match="does not support SCRAM-SHA-512; it supports PLAIN"):
            await Connection.open(broker.address, sasl("SCRAM-SHA-512"))


async def test_a_connection_that_is_about_to_expire_is_replaced() -> None:
    """KIP-368: the broker closes those that outlive `connections.max.reauth.ms`."""
    broker = ToyBroker()
    server = ToySasl(broker, "anna", PASSWORD, lifetime_ms=1)
    async with broker.serving(), Client([broker.address], settings=sasl("PLAIN")) as client:
        old = await client.any_broker()
        # Time is what it is about.
        await asyncio.sleep(0.002)
        new = await client.any_broker()
        assert new is not old
        assert old.closed
        assert not new.closed
        assert server.authenticated > 1


async def test_a_certificate_of_nobody_we_trust_is_refused() -> None:
    broker = ToyBroker()
    async with broker.serving(server_tls()):
        settings = ConnectionSettings(security=parse({"security.protocol": "SSL"}))
        with pytest.raises(AuthenticationFailed, match="certificate was rejected"):
            await Connection.open(broker.address, settings)


@pytest.mark.parametrize("checks", [True, False])
async def test_the_name_of_the_host_is_checked_unless_the_algorithm_is_empty(checks: bool) -> None:
    broker = ToyBroker()
    async with broker.serving(server_tls(), "127.0.0.2"):
        settings = {"security.protocol": "SSL"} | ({} if checks else {"ssl.endpoint.identification.algorithm": ""})
        opening = Connection.open(broker.address, secured(settings))
        if checks:
            with pytest.raises(AuthenticationFailed, match=r"certificate was rejected: .*127\.0\.0\.2"):
                await opening
        else:
            await (await opening).close()


@pytest.mark.parametrize("inline", [True, False])
async def test_a_client_shows_its_own_certificate(inline: bool) -> None:
    broker = ToyBroker()
    pem = (PKI / "client.pem").read_text()
    at = pem.index("-----BEGIN CERTIFICATE")
    own = (
        {"ssl.keystore.key": pem[:at], "ssl.keystore.certificate.chain": pem[at:]}
        if inline
        else {"ssl.keystore.location": str(PKI / "client.pem")}
    )
    settings = secured(
        {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.key.password": "open-sesame"} | own
    )
    async with broker.serving(server_tls(asks_for_certificate=True)):
        await (await Connection.open(broker.address, settings)).close()
        with pytest.raises((AuthenticationFailed, ConnectionFailed)):
            await Connection.open(broker.address, secured({"security.protocol": "SSL"}))


async def test_tls_where_none_is_spoken() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        address = Address(*server.sockets[0].getsockname())
        with pytest.raises(AuthenticationFailed, match="is the listener a TLS listener"):
            await Connection.open(address, secured({"security.protocol": "SSL"}))
