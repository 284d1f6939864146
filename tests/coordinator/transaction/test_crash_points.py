"""FAULTS 14: the broker dies, or the power goes, before any single change of the disk of a day full of transactions.

Of the 480 all were tried once with two kinds of power loss, and a good part of them with the others; since a death takes a tenth of a
second, these tests try fewer, the same in each run; MINIBROKER_SOAK=1 tries three times as many, others each time, and CRASH_SEED repeats
those of a run.

What was committed is seen, whole and in its order, with the offsets that were committed in it, and nothing else ever is; what was decided
is finished by the start; what was left open is aborted at its time-out, so that readers reach the end of every log. The producers of
before are fenced when others take over.
"""

from __future__ import annotations

import gc
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from minibroker.clock import ManualClock
from minibroker.cluster.metadata import features
from minibroker.errors import InvalidProducerEpoch, ProducerFenced
from minibroker.log.findings import ERROR
from tests.cluster.crashing import Died, DoomedFiles, MortalFiles, bury
from tests.cluster.directories.test_storage_checking import check, words
from tests.coordinator.transaction.crashing import (
    NEW,
    OFFSET,
    OLD,
    OLDER,
    SCAN_MS,
    TIMEOUT_MS,
    History,
    Shop,
    close,
    find_coordinators,
    live,
)
from tests.support.losing_files import Loss
from tests.support.soak import first_of, stride

UNSYNCED = MortalFiles(1 << 40)  #: of a broker that does not die
AGES_MS = 10 * TIMEOUT_MS
FEWER = stride(3)
STRIDES = {Loss.STRICT: 7 * FEWER, Loss.JOURNALED: 17 * FEWER, Loss.MIXED: 11 * FEWER}


def go_on(folder: Path, before: History, died: Shop | None, lives: int) -> None:
    """Start again, and find what must be there."""
    after = died.history if died is not None else History()
    shop = Shop(folder, UNSYNCED, ManualClock(ManualClock().now_ms() + AGES_MS))
    at_once = shop.committed()
    shop.broker.clock.advance(TIMEOUT_MS + SCAN_MS + 1)
    found = shop.committed()
    assert found in (before.visible, after.visible), f"died after {lives} changes"
    assert at_once == {place: values[: len(at_once[place])] for place, values in found.items()}, "a reader saw what is gone now"
    check_nothing_is_open(shop)
    if died is not None:
        shop.history.values = {place: [] for place in shop.places}
        trade(shop, died, found)
    close(shop)


def check_nothing_is_open(shop: Shop) -> None:
    for place in shop.places:
        log = shop.broker.cluster.partition(*place).log
        assert (log.producers.list_open_transactions(), log.last_stable_offset) == ([], log.log_end_offset), place
    assert all(each.state.is_idle for each in shop.broker.services.coordinators.transactions.all())


def trade(shop: Shop, died: Shop, found: dict[tuple[str, int], list[bytes]]) -> None:
    """New producers take over and commit; those of before are fenced, and their late requests change nothing."""
    find_coordinators(shop)
    names = list(died.producers) or [NEW, OLD]
    for name in names:
        shop.producer(name).take_over()
        for place in shop.places:
            shop.producer(name).write(place, name.encode())
        zombie = died.producers.get(name)
        if zombie is not None and zombie.ids[0] >= 0:
            zombie.shop = shop
            assert zombie.ids < shop.producer(name).ids
            assert {zombie.send(place, b"late") for place in shop.places} <= {InvalidProducerEpoch.code}
            if shop.places:
                assert zombie.ask_for_end(commit=True).error_code == ProducerFenced.code
        if shop.places:
            shop.producer(name).end(commit=True)
    written = [name.encode() for name in names]
    assert shop.committed() == {place: found[place] + written for place in shop.places} | {OFFSET: found[OFFSET]}
    check_nothing_is_open(shop)


@pytest.mark.parametrize(("stride", "is_synced"), [(3 * FEWER, True), (29 * FEWER, False)])
def test_crash_before_a_disk_change(stride: int, is_synced: bool, tmp_path: Path) -> None:
    """Without syncs, the broker dies once more, while it starts again and finishes what it finds."""
    lives, died = first_of(stride), True
    while died:
        folder = tmp_path / str(lives)
        before, shop, died = live(folder, MortalFiles(lives), is_synced=is_synced)
        if not is_synced:
            die_again(folder)
        go_on(folder, before, shop, lives)
        if lives // stride % 3 == 0:
            assert [each for each in words(check(folder), folder) if each.startswith(ERROR)] == [], f"died after {lives} changes"
        shutil.rmtree(folder)
        lives += stride
    assert lives > 400


def die_again(folder: Path) -> None:
    for second in range(2, 30, 9):
        try:
            shop = Shop(folder, MortalFiles(second), ManualClock(ManualClock().now_ms() + AGES_MS))
        except Died:
            gc.collect()  # what died half made lets go of its lock
            continue
        shop.broker._end.detach()
        with suppress(Died):
            shop.broker.clock.advance(0)
        bury(shop.broker.cluster)


@pytest.mark.parametrize("loss", Loss)
def test_power_loss_before_a_disk_change(loss: Loss, tmp_path: Path) -> None:
    """With nothing left of what was not synced, and with what chance leaves."""
    lives, died = first_of(STRIDES[loss]), True
    while died:
        place = tmp_path / str(lives)
        place.mkdir()
        files = DoomedFiles(place / "before", lives)
        before, shop, died = live(place / "before", files)
        files.lose_power(place / "after", Random(lives), loss)
        go_on(place / "after", before, shop, lives)
        shutil.rmtree(place)
        lives += STRIDES[loss]
    assert lives > 400


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_crash_with_old_clients_and_transaction_versions(transaction_version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All clients as before KIP-890, and below transaction.version 1 records that tell less. A few points: the others differ in nothing."""
    monkeypatch.setitem(features.RECORDED, features.TRANSACTION_VERSION_FEATURE, features.FeatureLevels(0, transaction_version))
    lives, died = first_of(31 * FEWER), True
    while died:
        place = tmp_path / str(lives)
        place.mkdir()
        files = DoomedFiles(place / "before", lives)
        before, shop, died = live(place / "before", files, (OLDER, OLD))
        files.lose_power(place / "after", Random(lives), Loss.STRICT)
        go_on(place / "after", before, shop, lives)
        shutil.rmtree(place)
        lives += 31 * FEWER
    assert shop is not None
    assert shop.broker.cluster.transaction_version == transaction_version
