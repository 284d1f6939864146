"""Clients of ten years in one group: Java from 0.9 to 4.3, kafka-python from 1.4.7. They speak JoinGroup from version 0 on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.group_members import CLASSIC, OLD_MAKES, Kind, Programs, Writer, is_here, shared, until, values
from tests.support.old_versions import require_old_versions

pytestmark = [pytest.mark.timeout(900)]  # the first run fetches the jars of eight versions

PARTITIONS = 22


def test_they_share_and_inherit(bootstrap: str, new_topic: Callable[..., str]) -> None:
    """All of them join; the older half leaves; modern members go on where they ended."""
    require_old_versions(bootstrap)
    topic, writer = new_topic(PARTITIONS), Writer(bootstrap)
    makes = [make for make in [*OLD_MAKES, "java"] if is_here(make)]
    with Programs(bootstrap) as programs:
        members = [programs.join(Kind(make, CLASSIC, "range"), topic, topic) for make in makes]
        until(lambda: shared(members, topic, PARTITIONS), *members)
        written = writer.write(topic, PARTITIONS)
        until(lambda: not written - values(*members), *members)
        for member in members:
            member.commit()
        rest = members[len(members) // 2 :]
        for member in members[: len(members) // 2]:
            member.leave()
        until(lambda: shared(rest, topic, PARTITIONS), *rest)
        written += writer.write(topic, PARTITIONS)
        until(lambda: not written - values(*members), *rest)
        for member in rest:
            member.commit()
        for member in rest:
            member.leave()
        last = writer.write(topic, PARTITIONS)
        kinds = [Kind(make, CLASSIC, "range") for make in ("confluent-kafka", "kafka-python")]
        modern = [programs.join(kind, topic, topic) for kind in kinds]
        until(lambda: not last - values(*modern), *modern)
        assert set(values(*modern)) == set(last), "what was committed is not read again"
