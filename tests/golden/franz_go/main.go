// Speaks every version of every API that minibroker serves, with franz-go's encoder, to the broker given as first
// argument. It is run once behind tests/golden/captures/clients.py; what it sends and what Apache Kafka answers become golden frames.
// With "transactions" as second argument it speaks those of transactions and committed offsets instead, with "groups" those of groups
// and of administration; with any other it is a member of a group of that kind.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

var bootstrap = os.Args[1]

func client(key, version int16, opts ...kgo.Opt) *kgo.Client {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(key, version)
	opts = append(opts, kgo.SeedBrokers(bootstrap), kgo.MaxVersions(versions), kgo.ClientID("franz-go"), kgo.DisableClientMetrics())
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		panic(err)
	}
	return cl
}

func ask(cl *kgo.Client, req kmsg.Request) kmsg.Response {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	res, err := cl.Broker(1).Request(ctx, req)
	if err != nil {
		fmt.Fprintf(os.Stderr, "key %d: %v\n", req.Key(), err)
	}
	return res
}

func str(s string) *string { return &s }

func topicID(name string) [16]byte {
	cl := client(3, 13)
	defer cl.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: str(name)}}
	return ask(cl, req).(*kmsg.MetadataResponse).Topics[0].TopicID
}

// Each returns the requests to send at a version.
var requests = map[int16]func(version int16) []kmsg.Request{
	2: func(version int16) []kmsg.Request {
		var all []kmsg.Request
		for isolation := int8(0); isolation <= 1; isolation++ {
			req := kmsg.NewPtrListOffsetsRequest()
			req.IsolationLevel = isolation
			for _, timestamp := range []int64{-1, -2, 1_700_000_000_000} {
				partition := kmsg.NewListOffsetsRequestTopicPartition()
				partition.Timestamp = timestamp
				partition.CurrentLeaderEpoch = -1
				topic := kmsg.NewListOffsetsRequestTopic()
				topic.Topic = "golden"
				topic.Partitions = append(topic.Partitions, partition)
				req.Topics = append(req.Topics, topic)
				if version >= 7 && timestamp == -1 {
					partition.Timestamp = -3
					req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{Topic: "golden-gzip", Partitions: []kmsg.ListOffsetsRequestTopicPartition{partition}})
				}
			}
			all = append(all, req)
		}
		return all
	},
	3: func(version int16) []kmsg.Request {
		named, missing, none := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest()
		named.Topics = []kmsg.MetadataRequestTopic{{Topic: str("golden")}}
		missing.Topics = []kmsg.MetadataRequestTopic{{Topic: str("golden-absent")}}
		none.Topics = []kmsg.MetadataRequestTopic{}
		if version >= 12 {
			byID := kmsg.NewPtrMetadataRequest()
			byID.Topics = []kmsg.MetadataRequestTopic{{TopicID: topicID("golden")}}
			return []kmsg.Request{named, none, missing, byID}
		}
		if version < 4 { // before v4 asking creates
			return []kmsg.Request{named, none}
		}
		return []kmsg.Request{named, none, missing}
	},
	18: func(int16) []kmsg.Request {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "franz-go", "1.22.2"
		return []kmsg.Request{req}
	},
	19: func(version int16) []kmsg.Request {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 30000
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = fmt.Sprintf("golden-made-%d", version)
		topic.NumPartitions, topic.ReplicationFactor = 2, 1
		topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: str("-1")}, {Name: "cleanup.policy", Value: str("compact")}}
		placed := kmsg.NewCreateTopicsRequestTopic()
		placed.Topic = fmt.Sprintf("golden-placed-%d", version)
		placed.NumPartitions, placed.ReplicationFactor = -1, -1
		placed.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1}}}
		req.Topics = append(req.Topics, topic, placed)
		bad := kmsg.NewPtrCreateTopicsRequest()
		bad.ValidateOnly = true
		wrong := kmsg.NewCreateTopicsRequestTopic()
		wrong.Topic, wrong.NumPartitions, wrong.ReplicationFactor = "a/b", 1, 1
		bad.Topics = append(bad.Topics, wrong)
		return []kmsg.Request{req, bad}
	},
	20: func(version int16) []kmsg.Request {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 30000
		names := []string{fmt.Sprintf("golden-made-%d", min(version+1, 6)), "golden-absent"}
		if version == 6 {
			names = []string{"golden-made-7", "golden-absent"}
			id := topicID("golden-placed-7")
			req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{TopicID: id})
		}
		req.TopicNames = names
		for _, name := range names {
			req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: str(name)})
		}
		return []kmsg.Request{req}
	},
	21: func(int16) []kmsg.Request {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 30000
		req.Topics = []kmsg.DeleteRecordsRequestTopic{
			{Topic: "golden", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: 1}, {Partition: 9, Offset: 0}}},
		}
		return []kmsg.Request{req}
	},
	22: func(version int16) []kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = 2147483647
		return []kmsg.Request{req}
	},
	23: func(int16) []kmsg.Request {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		partition := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		partition.CurrentLeaderEpoch, partition.LeaderEpoch = -1, 0
		future := partition
		future.Partition, future.LeaderEpoch = 9, 5
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "golden", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{partition, future}}}
		return []kmsg.Request{req}
	},
	32: func(version int16) []kmsg.Request {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.IncludeSynonyms, req.IncludeDocumentation = true, true
		req.Resources = []kmsg.DescribeConfigsRequestResource{
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "golden", ConfigNames: []string{"retention.ms", "cleanup.policy"}},
			{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1", ConfigNames: []string{"node.id", "log.dirs", "ssl.keystore.password"}},
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "golden-absent", ConfigNames: nil},
		}
		return []kmsg.Request{req}
	},
	33: func(int16) []kmsg.Request {
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Resources = []kmsg.AlterConfigsRequestResource{
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "golden", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: str("-1")}}},
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "golden-absent"},
		}
		return []kmsg.Request{req}
	},
	35: func(int16) []kmsg.Request {
		all, one := kmsg.NewPtrDescribeLogDirsRequest(), kmsg.NewPtrDescribeLogDirsRequest()
		all.Topics = nil
		one.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "golden", Partitions: []int32{0, 1}}}
		return []kmsg.Request{all, one}
	},
	37: func(version int16) []kmsg.Request {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis = 30000
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "golden-wide", Count: int32(version) + 2}, {Topic: "golden-absent", Count: 2}}
		placed := kmsg.NewPtrCreatePartitionsRequest()
		placed.ValidateOnly = true
		placed.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "golden-wide", Count: int32(version) + 3, Assignment: []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{1}}}}}
		return []kmsg.Request{req, placed}
	},
	44: func(int16) []kmsg.Request {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "golden", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
				{Name: "max.message.bytes", Op: kmsg.IncrementalAlterConfigOpSet, Value: str("2000000")}, {Name: "retention.ms", Op: kmsg.IncrementalAlterConfigOpDelete}}},
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "golden-absent"},
		}
		return []kmsg.Request{req}
	},
	60: func(version int16) []kmsg.Request {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = 1
		return []kmsg.Request{req}
	},
	75: func(int16) []kmsg.Request {
		req, absent := kmsg.NewPtrDescribeTopicPartitionsRequest(), kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "golden"}, {Topic: "golden-wide"}}
		req.ResponsePartitionLimit = 2
		absent.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "golden-absent"}}
		absent.ResponsePartitionLimit = 2000
		return []kmsg.Request{req, absent}
	},
}

type span struct{ key, low, high int16 }

func produce(version int16) {
	cl := client(0, version, kgo.DefaultProduceTopic("golden"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	record := &kgo.Record{Key: []byte("key"), Value: []byte(fmt.Sprintf("produced by v%d", version)), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(version)),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}, {Key: "null", Value: nil}}}
	if err := cl.ProduceSync(context.Background(), record, &kgo.Record{Value: []byte{}}, &kgo.Record{Key: []byte{}}).FirstErr(); err != nil {
		panic(err)
	}
}

func fetch(version int16) {
	cl := client(1, version, kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"golden": {0: kgo.NewOffset().AtEnd().Relative(-2)}}))
	defer cl.Close()
	for range 2 { // the second round waits in vain: an empty incremental answer from v7 on
		ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
		cl.PollFetches(ctx)
		cancel()
	}
}

func main() {
	if len(os.Args) > 2 && os.Args[2] == "transactions" { // tests/golden/captures/transactions.py
		transactions()
		return
	}
	if len(os.Args) > 2 && os.Args[2] == "groups" { // tests/golden/captures/groups.py
		groups()
		return
	}
	if len(os.Args) > 2 && os.Args[2] == "share_states" { // tests/golden/captures/share_states.py
		shareStates()
		return
	}
	if len(os.Args) > 2 && os.Args[2] == "acls" { // tests/golden/captures/acls.py
		acls()
		return
	}
	if len(os.Args) > 4 && os.Args[2] == "tokens" { // tests/golden/captures/delegation_tokens.py
		tokens(os.Args[3], os.Args[4])
		return
	}
	if len(os.Args) > 2 && os.Args[2] == "telemetry" { // tests/golden/captures/telemetry.py
		telemetry()
		return
	}
	if len(os.Args) > 2 && os.Args[2] == "sasl" { // tests/golden/captures/sasl.py
		saslRequests()
		return
	}
	if len(os.Args) > 4 && os.Args[2] == "log_dirs" { // tests/golden/captures/log_dirs.py
		logDirs(os.Args[3], os.Args[4])
		return
	}
	if len(os.Args) > 2 {
		groupOf(os.Args[2])
		return
	}
	admin := client(19, 7)
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range []string{"golden", "golden-wide", "golden-gzip"} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		req.Topics = append(req.Topics, topic)
	}
	ask(admin, req)
	admin.Close()
	time.Sleep(500 * time.Millisecond)
	for version := int16(3); version <= 13; version++ {
		produce(version)
	}
	for version := int16(4); version <= 18; version++ {
		fetch(version)
	}
	for _, s := range []span{{18, 0, 4}, {3, 0, 13}, {2, 1, 11}, {19, 2, 7}, {20, 1, 6}, {21, 0, 2}, {22, 0, 5}, {23, 2, 4}, {32, 1, 4}, {33, 0, 2}, {44, 0, 1},
		{35, 1, 5}, {37, 0, 3}, {60, 0, 2}, {75, 0, 0}} {
		for version := s.low; version <= s.high; version++ {
			cl := client(s.key, version)
			for _, request := range requests[s.key](version) {
				ask(cl, request)
			}
			cl.Close()
		}
	}
}
