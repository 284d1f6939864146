"""Requests of transactions and committed offsets, of every version, right and wrong ones."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import (
    k00_produce,
    k08_offset_commit,
    k09_offset_fetch,
    k22_init_producer_id,
    k24_add_partitions_to_txn,
    k25_add_offsets_to_txn,
    k26_end_txn,
    k27_write_txn_markers,
    k28_txn_offset_commit,
    k61_describe_producers,
    k65_describe_transactions,
    k66_list_transactions,
)
from tests.differential.data import Data, Operation
from tests.differential.twins import SIDES, Twins

NAMES: Final = ("x0", "x1", "x2", "x3")
GROUPS: Final = ("g0", "g1", "g2")
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort", "Dead", "ongoing", "")
TIMEOUT_MS: Final = 600_000


class TransactionalProducer:
    """One that InitProducerId made: it owns its transactional id, or is a zombie."""

    def __init__(self, name: str, ids: tuple[int, int], epoch: int) -> None:
        self.name = name
        self.ids = ids  #: the producer id on each side
        self.epoch = epoch
        self.next: dict[tuple[str, int], int] = {}
        self.written: set[tuple[str, int]] = set()  #: in its open transaction
        self.is_fenced = False


class TransactionData(Data):
    """Draws them."""

    isolation_levels = (0, 1), (1, 2)

    def __init__(self, random: Random, twins: Twins, now_ms: int) -> None:
        super().__init__(random, twins, now_ms)
        self.owners: list[TransactionalProducer] = []
        self.sent: dict[tuple[str, int], int] = {}  #: the sequence behind each batch of the last Produce in a transaction

    # -- pieces -------------------------------------------------------------------------------------------------------

    def producer(self) -> TransactionalProducer:
        """Mostly one of the latest."""
        return self.random.choice(self.owners[-6:] if self.random.random() < 0.85 else self.owners)

    def _claims(self, producer: TransactionalProducer) -> tuple[str, tuple[int, int], int]:
        """Name, producer ids and epoch as a request has them: now and then one of them is wrong."""
        draw = self.random
        trick = draw.random()
        name, ids, epoch = producer.name, producer.ids, producer.epoch
        if trick < 0.05:
            epoch += draw.choice((-1, 1, 7))
        elif trick < 0.07:
            ids = draw.choice(self.owners).ids
        elif trick < 0.09:
            name = draw.choice((*NAMES, "nobody", ""))
        return name, ids, epoch

    def some_places(self, most: int) -> dict[str, list[int]]:
        """Partitions, none of them negative: those Kafka refuses in a way of their own."""
        places = self.places(most)
        return {name: sorted({max(index, 0) for index in indexes}) for name, indexes in places.items()}

    # -- the coordinator ----------------------------------------------------------------------------------------------

    def init_transactional(self) -> tuple[Operation, str]:
        """InitProducerId, mostly by a producer without a past; the transactional id."""
        draw = self.random
        version = draw.randint(0, 5)
        name = draw.choice(NAMES) if draw.random() < 0.97 else ""
        timeout_ms = TIMEOUT_MS if draw.random() < 0.95 else draw.choice((0, -1, 900_001, 900_000))
        ids, epoch = (-1, -1), -1
        if version >= 3 and self.owners and draw.random() < 0.4:
            producer = self.producer()
            name, ids, epoch = producer.name, producer.ids, producer.epoch + draw.choices((0, -1, 1), (90, 5, 5))[0]
            if draw.random() < 0.05:
                ids = (-1, -1)

        def make(side: int) -> Any:
            fields: dict[str, Any] = {"producer_id": ids[side], "producer_epoch": epoch} if version >= 3 else {}
            return k22_init_producer_id.Request(transactional_id=name, transaction_timeout_ms=timeout_ms, **fields)

        return Operation(k22_init_producer_id, version, make, note=f"{name} {ids}:{epoch} {timeout_ms} ms"), name

    def add_partitions(self) -> Operation:
        """AddPartitionsToTxn of clients, and of brokers from version 4 on."""
        draw = self.random
        version = draw.choice((0, 1, 2, 3, 3, 4, 5, 5))
        claims = [self._claims(self.producer()) for _ in range(1 if version < 4 else draw.choice((1, 1, 2)))]
        claims = list({claim[0]: claim for claim in claims}.values())
        verify_only = [draw.random() < 0.5 for _ in claims]
        places = [self.some_places(3) for _ in claims]

        def make(side: int) -> Any:
            topics = [[k24_add_partitions_to_txn.Topic(name=name, partitions=each) for name, each in place.items()] for place in places]
            if version < 4:
                name, ids, epoch = claims[0]
                return k24_add_partitions_to_txn.Request(
                    v3_and_below_transactional_id=name,
                    v3_and_below_producer_id=ids[side],
                    v3_and_below_producer_epoch=epoch,
                    v3_and_below_topics=topics[0],
                )
            transactions = [
                k24_add_partitions_to_txn.Transaction(
                    transactional_id=name, producer_id=ids[side], producer_epoch=epoch, verify_only=only, topics=each
                )
                for (name, ids, epoch), only, each in zip(claims, verify_only, topics, strict=True)
            ]
            return k24_add_partitions_to_txn.Request(transactions=transactions)

        return Operation(k24_add_partitions_to_txn, version, make, note=f"{claims} verify {verify_only} {places}")

    def add_offsets(self) -> Operation:
        """AddOffsetsToTxn."""
        name, ids, epoch = self._claims(self.producer())
        group = self._group()
        return Operation(
            k25_add_offsets_to_txn,
            self.random.randint(0, 4),
            lambda side: k25_add_offsets_to_txn.Request(transactional_id=name, producer_id=ids[side], producer_epoch=epoch, group_id=group),
            note=f"{name} {ids}:{epoch} {group}",
        )

    def end(self, producer: TransactionalProducer) -> Operation:
        """EndTxn."""
        name, ids, epoch = self._claims(producer)
        commit = self.random.random() < 0.6
        return Operation(
            k26_end_txn,
            self.random.choice((0, 1, 2, 3, 4, 5, 5, 5, 5)),
            lambda side: k26_end_txn.Request(transactional_id=name, producer_id=ids[side], producer_epoch=epoch, committed=commit),
            note=f"{name} {ids}:{epoch} {'commit' if commit else 'abort'}",
        )

    def write_txn_markers(self) -> Operation:
        """As Kafka's tool sends them, and as no broker should."""
        draw = self.random
        producer = self.producer()
        epoch = producer.epoch + draw.choice((0, 0, 0, -1))  # a later one leaves Kafka with a transaction that never completes
        coordinator_epoch, version, transaction_version = draw.choice((0, 0, -1)), draw.choice((1, 2)), draw.choice((0, 0, 2, 1))
        commit, places = draw.random() < 0.5, self.some_places(2)

        def make(side: int) -> Any:
            fields = {"transaction_version": transaction_version} if version > 1 else {}
            marker = k27_write_txn_markers.Marker(
                producer_id=producer.ids[side],
                producer_epoch=epoch,
                transaction_result=commit,
                topics=[k27_write_txn_markers.Topic(name=name, partition_indexes=each) for name, each in places.items()],
                coordinator_epoch=coordinator_epoch,
                **fields,
            )
            return k27_write_txn_markers.Request(markers=[marker])

        note = f"{producer.name} {producer.ids}:{epoch} {commit} {places} coordinator {coordinator_epoch} version {transaction_version}"
        return Operation(k27_write_txn_markers, version, make, note=note)

    # -- records ------------------------------------------------------------------------------------------------------

    def produce_transactional(self, producer: TransactionalProducer) -> Operation:
        """Records of one producer to one or two partitions."""
        draw = self.random
        version = draw.choice((3, 7, 9, 10, 11, 11, 12, 12, 12, 13, 13, 13))
        name, ids, epoch = self._claims(producer)
        transactional_id = name if draw.random() < 0.97 else None
        is_transactional = draw.random() < 0.95
        batches: dict[tuple[str, int], tuple[bytes, bytes]] = {}
        results = []
        self.sent = {}
        places = self.some_places(2)
        is_transactional |= any((topic, index) not in producer.next for topic, indexes in places.items() for index in indexes)
        for topic, indexes in places.items():
            for index in indexes:
                sequence, records = producer.next.get((topic, index), 0), self._rows()
                # A low one that is refused at the start of a transaction stays in Kafka's verification, also one of a zombie: then the
                # right one is refused, too.
                sequence += 1000 * (producer.is_fenced or (name, ids, epoch) != (producer.name, producer.ids, producer.epoch))
                trick = draw.random() if (topic, index) in producer.written else 1
                if trick < 0.06:
                    sequence = max(0, sequence - draw.choice((1, 2, 3)))
                elif trick < 0.1 or not is_transactional:  # what is taken outside of a transaction confuses Kafka's later verification
                    sequence += draw.choice((1, 5))
                results.append(f"{topic}-{index} at {sequence} x {len(records)}")
                self.sent[topic, index] = sequence + len(records)
                ours, kafkas = (
                    bytes(
                        build_batch(
                            records,
                            producer_id=ids[side],
                            producer_epoch=epoch,
                            base_sequence=sequence,
                            is_transactional=is_transactional,
                        )
                    )
                    for side in SIDES
                )
                batches[topic, index] = ours, kafkas

        def make(side: int) -> k00_produce.Request:
            topics: dict[str, list[k00_produce.Partition]] = {}
            for (topic, index), batch in batches.items():
                topics.setdefault(topic, []).append(k00_produce.Partition(index=index, records=batch[side]))
            data = [
                k00_produce.Topic(topic_id=self.twins.topic_id(topic, side), partition_data=partitions)
                if version >= 13
                else k00_produce.Topic(name=topic, partition_data=partitions)
                for topic, partitions in topics.items()
            ]
            return k00_produce.Request(transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=data)

        note = f"{transactional_id} {ids}:{epoch} {'' if is_transactional else 'not '}transactional {results}"
        return Operation(k00_produce, version, make, note=note)

    def _rows(self) -> list[Record]:
        return [Record(0, self.now_ms + number, b"k%d" % number, b"v", ()) for number in range(self.random.choice((1, 1, 2, 5)))]

    # -- committed offsets --------------------------------------------------------------------------------------------

    def _group(self) -> str:
        return self.random.choices((*GROUPS, ""), (30, 30, 30, 3))[0]

    def _member(self) -> tuple[int, str]:
        return self.random.choices(((-1, ""), (5, ""), (-1, "m"), (5, "m"), (0, "")), (90, 3, 3, 3, 2))[0]

    def txn_offset_commit(self) -> Operation:
        """TxnOffsetCommit."""
        draw = self.random
        version = draw.choice((0, 1, 2, 3, 4, 4, 5, 5, 5))
        name, ids, epoch = self._claims(self.producer())
        group, (generation, member), places = self._group(), self._member() if version >= 3 else (-1, ""), self.some_places(3)
        offset, metadata = draw.randint(0, 50), draw.choice(("", "words", None))

        def make(side: int) -> Any:
            fields: dict[str, Any] = {"generation_id": generation, "member_id": member} if version >= 3 else {}
            topics = [
                k28_txn_offset_commit.Topic(
                    name=topic,
                    partitions=[
                        k28_txn_offset_commit.Partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                        for index in indexes
                    ],
                )
                for topic, indexes in places.items()
            ]
            return k28_txn_offset_commit.Request(
                transactional_id=name, group_id=group, producer_id=ids[side], producer_epoch=epoch, topics=topics, **fields
            )

        note = f"{name} {ids}:{epoch} {group!r} generation {generation} member {member!r} {places} at {offset}"
        return Operation(k28_txn_offset_commit, version, make, note=note)

    def offset_commit(self) -> Operation:
        """OffsetCommit of a consumer without a group's life."""
        draw = self.random
        version = draw.randint(2, 10)
        group, (generation, member), places = self._group(), self._member(), self.some_places(3)
        offset, metadata = draw.choice((draw.randint(0, 50), draw.randint(0, 50), -1)), draw.choice(("", "words", None))

        def make(side: int) -> Any:
            topics = [
                k08_offset_commit.Topic(
                    partitions=[
                        k08_offset_commit.Partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                        for index in indexes
                    ],
                    **({"topic_id": self.twins.topic_id(topic, side)} if version >= 10 else {"name": topic}),
                )
                for topic, indexes in places.items()
            ]
            return k08_offset_commit.Request(group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=topics)

        return Operation(k08_offset_commit, version, make, note=f"{group!r} {generation} {member!r} {places} at {offset}")

    def offset_fetch(self) -> Operation:
        """OffsetFetch of one group, or of several."""
        draw = self.random
        version = draw.randint(1, 10)
        require_stable = draw.random() < 0.5
        groups = [self._group() for _ in range(1 if version < 8 else draw.choice((1, 2)))]
        is_all = draw.random() < 0.3 and version >= 2
        places = self.some_places(4)

        def make(side: int) -> Any:
            fields: dict[str, Any] = {"require_stable": require_stable} if version >= 7 else {}
            if version < 8:
                topics = [k09_offset_fetch.Topic(name=name, partition_indexes=indexes) for name, indexes in places.items()]
                return k09_offset_fetch.Request(group_id=groups[0], topics=None if is_all else topics, **fields)
            named = [
                k09_offset_fetch.GroupTopic(
                    partition_indexes=indexes,
                    **({"topic_id": self.twins.topic_id(name, side)} if version >= 10 else {"name": name}),
                )
                for name, indexes in places.items()
            ]
            requested_groups = [k09_offset_fetch.Group(group_id=each, topics=None if is_all else named) for each in groups]
            return k09_offset_fetch.Request(groups=requested_groups, **fields)

        note = f"{groups} stable {require_stable} {'all' if is_all else places}"
        return Operation(k09_offset_fetch, version, make, note=note)

    # -- what there is ------------------------------------------------------------------------------------------------

    def describe_producers(self, places: dict[str, list[int]]) -> Operation:
        """DescribeProducers."""
        topics = [k61_describe_producers.Topic(name=name, partition_indexes=indexes) for name, indexes in places.items()]
        return Operation(k61_describe_producers, 0, lambda _: k61_describe_producers.Request(topics=topics), note=str(places))

    def describe_transactions(self, *names: str) -> Operation:
        """DescribeTransactions."""
        request = k65_describe_transactions.Request(transactional_ids=list(names))
        return Operation(k65_describe_transactions, 0, lambda _: request, note=str(names))

    def list_transactions(self) -> Operation:
        """ListTransactions with filters."""
        draw = self.random
        version = draw.randint(0, 2)
        states = draw.sample(STATES, draw.choice((0, 0, 1, 2)))
        numbers = [draw.choice(self.owners).ids for _ in range(draw.choice((0, 0, 1, 2)))]
        fields: dict[str, Any] = {}
        if version >= 1:
            fields["duration_filter"] = draw.choice((-1, -1, 0, 3_600_000))
        if version >= 2:
            fields["transactional_id_pattern"] = draw.choice((None, "", "x.*", "x", "0", "x[01]", "[", "nobody|x2"))

        def make(side: int) -> Any:
            return k66_list_transactions.Request(state_filters=states, producer_id_filters=[each[side] for each in numbers], **fields)

        return Operation(k66_list_transactions, version, make, note=f"{states} {numbers} {fields}")
