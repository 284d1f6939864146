"""Spring Cloud Stream's client of Confluent's registry, in Java. Confluent's own serializers for Java are not on Maven Central."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.registry.test_clients import HERE, steps
from tests.registry.test_served import url_of
from tests.support.broker_process import BrokerProcess
from tests.support.java import SHORT_LIVED, jars
from tests.support.soak import IS_SOAK

CLIENT = "org.springframework.cloud:spring-cloud-stream-schema-registry-client:4.2.0"


@pytest.mark.skipif(not IS_SOAK, reason="fetches Spring's jars: MINIBROKER_SOAK=1 runs it")
def test_springs_client_of_confluents_registry(tmp_path: Path) -> None:
    folder = jars("spring-registry-client-4.2.0", CLIENT)
    program = str(HERE / "spring" / "SpringClient.java")
    with BrokerProcess(tmp_path, "--registry-port", "0") as broker:
        command = ("java", "-Xmx256m", *SHORT_LIVED, "-cp", f"{folder}/*", program, url_of(broker))
        assert steps(*command) == ["evolves", "meets errors"]
