"""AlterShareGroupOffsets: answered when all that it changed is safe."""

from __future__ import annotations

import errno

import pytest

from tests.golden.share_scenario import alter
from tests.support.faulty_files import FaultyFiles
from tests.support.share_groups import share_broker


@pytest.mark.parametrize("lost", ["__consumer_offsets", "__share_group_state"])
def test_answers_wait_for_both_logs(lost: str) -> None:
    files = FaultyFiles()
    broker = share_broker(files=files, config={"log.flush.interval.messages": "1"})
    pending = broker.begin(alter("s", {"t": {0: 4}}))
    assert not pending.is_done
    broker.clock.advance(0)
    assert pending.answer().error_code == 0

    pending = broker.begin(alter("s", {"t": {0: 5}}))
    files.fail("sync", errno.EIO, path_part=lost)
    broker.clock.advance(0)
    assert pending.answer().error_code == 16
