"""One adapter per client library, so that one story runs through all of them."""

from tests.clients.adapters.aio import AioKafka
from tests.clients.adapters.base import Client
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython

CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), AioKafka())
