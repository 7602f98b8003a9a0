"""SCRAM against the example of RFC 7677, and servers that do not keep to it."""

import pytest

from tidelog.client.scram import ScramError, ScramExchange

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()


def exchange(username: str = "user") -> ScramExchange:
    return ScramExchange("SCRAM-SHA-256", username, "pencil", NONCE)


def test_the_example_of_rfc_7677() -> None:
    client = exchange()
    assert client.first() == f"n,,n=user,r={NONCE}".encode()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert client.final(SERVER_FIRST) == f"c=biws,r={SERVER_NONCE},p={proof}".encode()
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_commas_and_equal_signs_of_a_name_are_escaped() -> None:
    assert exchange("a=b,c").first() == f"n,,n=a=3Db=2Cc,r={NONCE}".encode()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"r=another,s=W22Z,i=4096", "does not continue ours"),
        (f"r={NONCE},s=W22Z,i=4096".encode(), "does not continue ours"),
        (f"r={SERVER_NONCE},s=???,i=4096".encode(), "salt is not base64"),
        (f"r={SERVER_NONCE},s=,i=4096".encode(), "no salt"),
        (f"r={SERVER_NONCE},s=W22Z,i=4095".encode(), "iterations"),
        (f"r={SERVER_NONCE},s=W22Z,i=99999999999".encode(), "iterations"),
        (f"r={SERVER_NONCE},s=W22Z,i=²".encode(), "iterations"),
        (f"m=more,r={SERVER_NONCE},s=W22Z,i=4096".encode(), "extension"),
        (b"\xff", "not UTF-8 text"),
        (b"nothing", "not a SCRAM message"),
        (b"r=1,r=2", "not a SCRAM message"),
    ],
)
def test_a_first_message_that_is_refused(message: bytes, words: str) -> None:
    with pytest.raises(ScramError, match=words):
        exchange().final(message)


@pytest.mark.parametrize(
    ("message", "words"),
    [(b"e=invalid-proof", "invalid-proof"), (b"v=AAAA", "failed to prove"), (b"x=1", "no signature")],
)
def test_a_final_message_that_is_refused(message: bytes, words: str) -> None:
    client = exchange()
    client.final(SERVER_FIRST)
    with pytest.raises(ScramError, match=words):
        client.verify(message)
