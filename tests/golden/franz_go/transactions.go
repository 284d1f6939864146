package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const committed, markers = "golden-committed", "golden-markers"

// A transactional id's producer; asked again while its coordinator is not ready.
func initProducer(id string) (int64, int16) {
	cl := client(22, 4)
	defer cl.Close()
	for range 100 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = str(id), 60000
		res := ask(cl, req).(*kmsg.InitProducerIDResponse)
		if res.ErrorCode == 0 {
			return res.ProducerID, res.ProducerEpoch
		}
		time.Sleep(100 * time.Millisecond)
	}
	panic("no producer id for " + id)
}

func addPartitions(id string, producerID int64, epoch int16) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, producerID, epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: committed, Partitions: []int32{0, 1}}}
	return req
}

func addOffsets(id string, producerID int64, epoch int16) *kmsg.AddOffsetsToTxnRequest {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = id, producerID, epoch, "golden-group"
	return req
}

func endTxn(id string, producerID int64, epoch int16, commit bool) *kmsg.EndTxnRequest {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, producerID, epoch, commit
	return req
}

// Sent by a client of its own, at a version that clients of transaction.version 1 use.
func askOnce(req kmsg.Request, version int16) {
	cl := client(req.Key(), version)
	defer cl.Close()
	ask(cl, req)
}

var transactional = map[int16]func(version int16) []kmsg.Request{
	8: func(version int16) []kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = "golden-group", -1
		for _, name := range []string{committed, "golden-absent"} {
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic = name
			if version >= 10 && name == committed {
				topic.TopicID = topicID(committed)
			} else if version >= 10 {
				topic.TopicID = [16]byte{15: 1}
			}
			partition, far := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetCommitRequestTopicPartition()
			partition.Offset, partition.Metadata, partition.LeaderEpoch = int64(version), str("of v"+fmt.Sprint(version)), 0
			far.Partition = 9
			topic.Partitions = append(topic.Partitions, partition, far)
			req.Topics = append(req.Topics, topic)
		}
		return []kmsg.Request{req}
	},
	9: func(version int16) []kmsg.Request {
		some, all := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrOffsetFetchRequest()
		some.RequireStable, some.Group, all.Group = true, "golden-group", "golden-group"
		some.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: committed, Partitions: []int32{0, 1}}, {Topic: "golden-absent", Partitions: []int32{0}}}
		for _, name := range []string{"golden-group", "golden-absent-group"} {
			group, whole := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroup()
			group.Group, group.MemberEpoch, whole.Group, whole.MemberEpoch = name, -1, name, -1
			topic := kmsg.NewOffsetFetchRequestGroupTopic()
			topic.Topic, topic.Partitions = committed, []int32{0, 1}
			if version >= 10 {
				topic.TopicID = topicID(committed)
			}
			group.Topics, whole.Topics = append(group.Topics, topic), nil
			some.Groups, all.Groups = append(some.Groups, group), append(all.Groups, whole)
		}
		if version < 2 {
			return []kmsg.Request{some}
		}
		return []kmsg.Request{some, all}
	},
	10: func(version int16) []kmsg.Request {
		group, id, odd := kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrFindCoordinatorRequest()
		group.CoordinatorKey, group.CoordinatorKeys = "golden-group", []string{"golden-group", "another"}
		id.CoordinatorKey, id.CoordinatorKeys, id.CoordinatorType = "golden", []string{"golden", "another"}, 1
		odd.CoordinatorKey, odd.CoordinatorKeys, odd.CoordinatorType = "golden", []string{"golden"}, 2 // share groups from v6 on
		if version < 1 {
			return []kmsg.Request{group}
		}
		return []kmsg.Request{group, id, odd}
	},
	24: func(version int16) []kmsg.Request {
		id := fmt.Sprintf("golden-24-%d", version)
		producerID, epoch := initProducer(id)
		req := addPartitions(id, producerID, epoch)
		for _, verifyOnly := range []bool{false, true} {
			transaction := kmsg.NewAddPartitionsToTxnRequestTransaction()
			transaction.TransactionalID, transaction.ProducerID, transaction.ProducerEpoch, transaction.VerifyOnly = id, producerID, epoch, verifyOnly
			transaction.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: committed, Partitions: []int32{0, 1}}}
			if verifyOnly {
				transaction.TransactionalID = "golden-absent"
			}
			req.Transactions = append(req.Transactions, transaction)
		}
		fenced := addPartitions(id, producerID, epoch-1)
		if version >= 4 {
			return []kmsg.Request{req}
		}
		return []kmsg.Request{req, fenced}
	},
	25: func(version int16) []kmsg.Request {
		id := fmt.Sprintf("golden-25-%d", version)
		producerID, epoch := initProducer(id)
		return []kmsg.Request{addOffsets(id, producerID, epoch), addOffsets("golden-absent", producerID, epoch)}
	},
	26: func(version int16) []kmsg.Request {
		id := fmt.Sprintf("golden-26-%d", version)
		producerID, epoch := initProducer(id)
		askOnce(addPartitions(id, producerID, epoch), 3)
		return []kmsg.Request{endTxn(id, producerID, epoch, version%2 == 0), endTxn("golden-absent", producerID, epoch, true)}
	},
	27: func(version int16) []kmsg.Request {
		producerID, epoch := initProducer(fmt.Sprintf("golden-27-%d", version))
		req := kmsg.NewPtrWriteTxnMarkersRequest()
		marker := kmsg.NewWriteTxnMarkersRequestMarker()
		marker.ProducerID, marker.ProducerEpoch, marker.Committed, marker.TransactionVersion = producerID, epoch, true, 1
		marker.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: markers, Partitions: []int32{0, 9}}}
		req.Markers = append(req.Markers, marker)
		return []kmsg.Request{req}
	},
	28: func(version int16) []kmsg.Request {
		id := fmt.Sprintf("golden-28-%d", version)
		producerID, epoch := initProducer(id)
		if version < 5 {
			askOnce(addOffsets(id, producerID, epoch), 3)
		}
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, req.Generation = id, producerID, epoch, "golden-group", -1
		for _, name := range []string{committed, "golden-absent"} {
			partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			partition.Offset, partition.Metadata, partition.LeaderEpoch = 20+int64(version), str("in a transaction"), 0
			req.Topics = append(req.Topics, kmsg.TxnOffsetCommitRequestTopic{Topic: name, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{partition}})
		}
		fenced := *req
		fenced.ProducerEpoch = epoch - 1
		return []kmsg.Request{req, &fenced}
	},
	61: func(int16) []kmsg.Request {
		req := kmsg.NewPtrDescribeProducersRequest()
		req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: committed, Partitions: []int32{0, 9}}, {Topic: "golden-absent", Partitions: []int32{0}}}
		return []kmsg.Request{req}
	},
	65: func(int16) []kmsg.Request {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{"golden-24-0", "golden-26-2", "golden-absent"}
		return []kmsg.Request{req}
	},
	66: func(int16) []kmsg.Request {
		all, some := kmsg.NewPtrListTransactionsRequest(), kmsg.NewPtrListTransactionsRequest()
		some.StateFilters, some.ProducerIDFilters = []string{"Ongoing", "Nonsense"}, []int64{0, 1, 2, 3, 4, 5, 6}
		some.DurationFilterMillis, some.TransactionalIDPattern = 1, str("golden-2.*")
		return []kmsg.Request{all, some}
	},
}

// A consumer and producer in one, as kgo does exactly-once: commit, then abort.
func session() {
	seed := client(0, 13, kgo.DefaultProduceTopic(committed))
	if err := seed.ProduceSync(context.Background(), &kgo.Record{Value: []byte("one")}, &kgo.Record{Value: []byte("two")}).FirstErr(); err != nil {
		panic(err)
	}
	seed.Close()
	sess, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("golden-session"), kgo.ConsumerGroup("golden-session"),
		kgo.ConsumeTopics(committed), kgo.DefaultProduceTopic(markers), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ClientID("franz-go"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond), kgo.DisableClientMetrics())
	if err != nil {
		panic(err)
	}
	defer sess.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if end == kgo.TryCommit { // both records at once, then there are none
			sess.PollFetches(ctx)
		}
		if err := sess.Begin(); err != nil {
			panic(err)
		}
		sess.ProduceSync(ctx, &kgo.Record{Key: []byte("k"), Value: []byte("made")})
		if _, err := sess.End(ctx, end); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		cancel()
	}
}

// Every version of the APIs of transactions and committed offsets.
func transactions() {
	session()
	for _, s := range []span{{10, 0, 6}, {24, 0, 5}, {25, 0, 4}, {28, 0, 5}, {61, 0, 0}, {26, 0, 5}, {27, 1, 2}, {8, 2, 10}, {9, 1, 10}, {65, 0, 0}, {66, 0, 2}} {
		for version := s.low; version <= s.high; version++ {
			requests := transactional[s.key](version)
			cl := client(s.key, version)
			for _, request := range requests {
				ask(cl, request)
			}
			cl.Close()
		}
	}
}
