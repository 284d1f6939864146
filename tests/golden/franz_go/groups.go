package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const grouped = "golden-grouped" // two partitions

// A client that speaks every API of classic groups at the version that belongs to this one of JoinGroup.
func groupClient(version int16) *kgo.Client {
	versions := kversion.Stable()
	for key, highest := range map[int16]int16{11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5, 42: 2, 47: 0} {
		versions.SetMaxKeyVersion(key, min(version, highest))
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.MaxVersions(versions), kgo.ClientID("franz-go"), kgo.DisableClientMetrics())
	if err != nil {
		panic(err)
	}
	return cl
}

func joinRequest(group string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, 30000, 60000, "consumer"
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Version, metadata.Topics = 1, []string{grouped}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata.AppendTo(nil)}, {Name: "roundrobin", Metadata: metadata.AppendTo(nil)}}
	req.Reason = str("to be recorded")
	return req
}

// One member's life in a group of its own, with the mistakes that each version tells of.
func classic(version int16) {
	cl := groupClient(version)
	defer cl.Close()
	group := fmt.Sprintf("golden-classic-%d", version)
	join := joinRequest(group)
	if version >= 5 && version%2 == 1 {
		join.InstanceID = str("golden-instance")
	}
	joined := ask(cl, join).(*kmsg.JoinGroupResponse)
	if joined.ErrorCode == 79 { // MEMBER_ID_REQUIRED
		join.MemberID = joined.MemberID
		joined = ask(cl, join).(*kmsg.JoinGroupResponse)
	}
	unknown := joinRequest(group)
	unknown.MemberID = "golden-absent"
	ask(cl, unknown)
	wrong := joinRequest(group)
	wrong.ProtocolType = "other"
	ask(cl, wrong)
	member, generation := joined.MemberID, joined.Generation

	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = []string{group, "golden-absent"}, true
	ask(cl, describe) // CompletingRebalance
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID, sync.InstanceID = group, generation, member, join.InstanceID
	sync.ProtocolType, sync.Protocol = str("consumer"), str("range")
	assignment := kmsg.NewConsumerMemberAssignment()
	topic := kmsg.NewConsumerMemberAssignmentTopic()
	topic.Topic, topic.Partitions = grouped, []int32{0, 1}
	assignment.Topics = append(assignment.Topics, topic)
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: assignment.AppendTo(nil)}}
	ask(cl, sync)
	late := *sync
	late.Generation, late.GroupAssignment = generation+1, nil
	ask(cl, &late)

	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group, heartbeat.Generation, heartbeat.MemberID, heartbeat.InstanceID = group, generation, member, join.InstanceID
	ask(cl, heartbeat)
	stranger := *heartbeat
	stranger.MemberID = "golden-absent"
	ask(cl, &stranger)

	ask(cl, describe) // Stable
	list := kmsg.NewPtrListGroupsRequest()
	ask(cl, list)
	if version >= 4 {
		list.StatesFilter, list.TypesFilter = []string{"Stable"}, []string{"classic"}
		ask(cl, list)
	}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{group, "golden-absent"}
	ask(cl, remove) // NON_EMPTY_GROUP
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation, commit.MemberID, commit.InstanceID = group, generation, member, join.InstanceID
	for _, name := range []string{grouped, "golden"} {
		committed, partition := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Offset = 1
		committed.Topic, committed.TopicID = name, topicID(name)
		committed.Partitions = append(committed.Partitions, partition)
		commit.Topics = append(commit.Topics, committed)
	}
	ask(cl, commit)
	forget := kmsg.NewPtrOffsetDeleteRequest()
	forget.Group = group
	for _, name := range []string{grouped, "golden"} { // one is subscribed to, the other is not
		forget.Topics = append(forget.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
	}
	ask(cl, forget)
	forget.Group = "golden-absent"
	ask(cl, forget)

	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = group, "golden-absent"
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: "golden-absent", Reason: str("never came")}, {InstanceID: str("golden-absent")}}
	ask(cl, leave)
	leave.MemberID = member
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member, InstanceID: join.InstanceID, Reason: str("done")}}
	ask(cl, leave)
	ask(cl, describe) // Empty
	ask(cl, remove)
}

// ConsumerGroupHeartbeat and ConsumerGroupDescribe.
func next(version int16) {
	cl, describing := client(68, version), client(69, version)
	defer cl.Close()
	defer describing.Close()
	group := fmt.Sprintf("golden-next-%d", version)
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.RebalanceTimeoutMillis, beat.Topics = group, 60000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	beat.SubscribedTopicNames, beat.ServerAssignor = []string{grouped}, str("range")
	beat.RackID = str("rack")
	if version >= 1 {
		beat.MemberID, beat.SubscribedTopicNames, beat.SubscribedTopicRegex = "golden-member", nil, str("golden-gr.*")
		badRegex := *beat
		badRegex.SubscribedTopicRegex = str("golden-[")
		ask(cl, &badRegex)
	}
	odd := *beat
	odd.ServerAssignor = str("golden-absent")
	ask(cl, &odd)
	answer := ask(cl, beat).(*kmsg.ConsumerGroupHeartbeatResponse)
	quiet := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	quiet.Group, quiet.MemberID, quiet.RebalanceTimeoutMillis = group, *answer.MemberID, -1
	for range 4 { // the pattern is looked for by another thread
		time.Sleep(300 * time.Millisecond)
		quiet.MemberEpoch = answer.MemberEpoch
		answer = ask(cl, quiet).(*kmsg.ConsumerGroupHeartbeatResponse)
	}
	quiet.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: topicID(grouped), Partitions: []int32{0, 1}}}
	ask(cl, quiet)
	fenced := *quiet
	fenced.MemberEpoch += 5
	ask(cl, &fenced)
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = []string{group, "golden-absent"}, true
	ask(describing, describe)
	quiet.MemberEpoch, quiet.Topics = -1, nil
	ask(cl, quiet)
	ask(describing, describe)
}

// A share group's member: heartbeats, a session of fetches, acknowledgements, the offsets of the group.
func share(version int16) {
	beating, describing, fetching, acknowledging := client(76, 1), client(77, 1), client(78, version), client(79, version)
	offsets := client(90, version-1)
	for _, cl := range []*kgo.Client{beating, describing, fetching, acknowledging, offsets} {
		defer cl.Close()
	}
	group, member := fmt.Sprintf("golden-share-%d", version), "AAAAAAAAAAAAAAAAAAAAAw"
	earliest := kmsg.NewPtrIncrementalAlterConfigsRequest()
	earliest.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: 32, ResourceName: group,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: str("earliest")}}}}
	ask(beating, earliest)
	beat := kmsg.NewPtrShareGroupHeartbeatRequest()
	beat.GroupID, beat.MemberID, beat.SubscribedTopicNames, beat.RackID = group, member, []string{grouped}, str("rack")
	answer := ask(beating, beat).(*kmsg.ShareGroupHeartbeatResponse)
	quiet := kmsg.NewPtrShareGroupHeartbeatRequest()
	quiet.GroupID, quiet.MemberID = group, member
	for range 6 {
		time.Sleep(300 * time.Millisecond)
		quiet.MemberEpoch = answer.MemberEpoch
		answer = ask(beating, quiet).(*kmsg.ShareGroupHeartbeatResponse)
	}
	id := topicID(grouped)
	fetch := func(epoch int32, batches ...kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch) *kmsg.ShareFetchResponse {
		req := kmsg.NewPtrShareFetchRequest()
		req.GroupID, req.MemberID, req.ShareSessionEpoch = &group, &member, epoch
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.MaxRecords, req.BatchSize = 1000, 1, 1<<20, 2, 2
		req.ShareAcquireMode = int8(version - 1)
		partition := kmsg.NewShareFetchRequestTopicPartition()
		partition.AcknowledgementBatches = batches
		req.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: id, Partitions: []kmsg.ShareFetchRequestTopicPartition{partition}}}
		if epoch < 0 {
			req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.MaxRecords, req.BatchSize = 0, 0, 0, 0, 0
			req.Topics = req.Topics[:0]
		}
		return ask(fetching, req).(*kmsg.ShareFetchResponse)
	}
	acknowledge := func(epoch int32, first, last int64, kind int8) {
		req := kmsg.NewPtrShareAcknowledgeRequest()
		req.GroupID, req.MemberID, req.ShareSessionEpoch, req.IsRenewAck = &group, &member, epoch, kind == 4
		batch := kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{FirstOffset: first, LastOffset: last, AcknowledgeTypes: []int8{kind}}
		req.Topics = []kmsg.ShareAcknowledgeRequestTopic{{TopicID: id, Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{
			{AcknowledgementBatches: []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{batch}}}}}
		ask(acknowledging, req)
	}
	fetch(7) // of a session that there is not
	fetch(0)
	time.Sleep(time.Second)
	fetch(1)
	kinds := []int8{2}
	fetch(2, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{FirstOffset: 0, LastOffset: 0, AcknowledgeTypes: kinds})
	acknowledge(3, 0, 0, 1)
	acknowledge(4, 900, 901, 1) // what it never acquired
	if version >= 2 {
		acknowledge(5, 1, 1, 4)
		fetch(6)
	} else {
		fetch(5)
	}
	describe := kmsg.NewPtrShareGroupDescribeRequest()
	describe.GroupIDs, describe.IncludeAuthorizedOperations = []string{group, "golden-absent"}, true
	ask(describing, describe)
	fetch(-1)
	some, all := kmsg.NewPtrDescribeShareGroupOffsetsRequest(), kmsg.NewPtrDescribeShareGroupOffsetsRequest() // a partition above the last is never answered
	for _, name := range []string{group, "golden-absent"} {
		some.Groups = append(some.Groups, kmsg.DescribeShareGroupOffsetsRequestGroup{GroupID: name,
			Topics: []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{{Topic: grouped, Partitions: []int32{0, 1}}, {Topic: "golden-absent", Partitions: []int32{0}}}})
		all.Groups = append(all.Groups, kmsg.DescribeShareGroupOffsetsRequestGroup{GroupID: name})
	}
	ask(offsets, some)
	ask(offsets, all)
	alter, forget := kmsg.NewPtrAlterShareGroupOffsetsRequest(), kmsg.NewPtrDeleteShareGroupOffsetsRequest()
	alter.GroupID, forget.GroupID = group, group
	alter.Topics = []kmsg.AlterShareGroupOffsetsRequestTopic{{Topic: grouped, Partitions: []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{Partition: 0, StartOffset: 1}, {Partition: 9}}}}
	forget.Topics = []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: grouped}, {Topic: "golden-absent"}}
	ask(offsets, alter) // NON_EMPTY_GROUP
	ask(offsets, forget)
	quiet.MemberEpoch = -1
	ask(beating, quiet)
	ask(offsets, alter)
	ask(offsets, forget)
	ask(describing, describe)
}

// Administration, at each version.
var administering = map[int16]func(version int16) []kmsg.Request{
	43: func(version int16) []kmsg.Request {
		all, some := kmsg.NewPtrElectLeadersRequest(), kmsg.NewPtrElectLeadersRequest()
		some.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: grouped, Partitions: []int32{0, 9}}, {Topic: "golden-absent", Partitions: []int32{0}}}
		some.ElectionType = int8(min(version, 1))
		return []kmsg.Request{all, some}
	},
	45: func(int16) []kmsg.Request {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		partition := func(index int32, replicas ...int32) kmsg.AlterPartitionAssignmentsRequestTopicPartition {
			return kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: index, Replicas: replicas}
		}
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{
			{Topic: grouped, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{partition(0, 1), partition(1), partition(9, 1)}},
			{Topic: "golden-absent", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{partition(0, 1)}}}
		return []kmsg.Request{req}
	},
	46: func(int16) []kmsg.Request {
		all, some := kmsg.NewPtrListPartitionReassignmentsRequest(), kmsg.NewPtrListPartitionReassignmentsRequest()
		some.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: grouped, Partitions: []int32{0, 9}}}
		return []kmsg.Request{all, some}
	},
	49: func(int16) []kmsg.Request {
		req := kmsg.NewPtrAlterClientQuotasRequest()
		entity := func(kind string, name *string) kmsg.AlterClientQuotasRequestEntryEntity {
			return kmsg.AlterClientQuotasRequestEntryEntity{Type: kind, Name: name}
		}
		set := []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1024}, {Key: "consumer_byte_rate", Remove: true}}
		req.Entries = []kmsg.AlterClientQuotasRequestEntry{
			{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{entity("user", str("golden")), entity("client-id", nil)}, Ops: set},
			{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{entity("nonsense", str("golden"))}, Ops: set},
			{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{entity("user", str("golden"))}, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "nonsense", Value: 1}}}}
		return []kmsg.Request{req}
	},
	48: func(int16) []kmsg.Request {
		all, some, odd := kmsg.NewPtrDescribeClientQuotasRequest(), kmsg.NewPtrDescribeClientQuotasRequest(), kmsg.NewPtrDescribeClientQuotasRequest()
		some.Components, some.Strict = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", Match: str("golden")}, {EntityType: "client-id", MatchType: 1}}, true
		odd.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "nonsense", MatchType: 2}}
		return []kmsg.Request{all, some, odd}
	},
	51: func(int16) []kmsg.Request {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		set := func(name string, mechanism int8, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
			return kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: name, Mechanism: mechanism, Iterations: iterations, Salt: []byte("salt"), SaltedPassword: make([]byte, 32)}
		}
		req.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{set("golden", 1, 4096), set("golden-weak", 1, 5), set("golden-odd", 9, 4096), set("", 1, 4096)}
		req.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "golden-absent", Mechanism: 2}}
		return []kmsg.Request{req}
	},
	50: func(int16) []kmsg.Request {
		all, some := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		some.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "golden"}, {Name: "golden-absent"}}
		return []kmsg.Request{all, some}
	},
	55: func(int16) []kmsg.Request {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}}}}
		odd := kmsg.NewPtrDescribeQuorumRequest()
		odd.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: grouped, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}}}}
		return []kmsg.Request{req, odd}
	},
	57: func(int16) []kmsg.Request {
		try := func(feature string, level int16, kind int8) kmsg.Request {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.ValidateOnly = true
			req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: feature, MaxVersionLevel: level, UpgradeType: kind, AllowDowngrade: kind > 1}}
			return req
		}
		return []kmsg.Request{try("transaction.version", 2, 1), try("nonsense", 1, 1), try("transaction.version", 99, 1)}
	},
	74: func(version int16) []kmsg.Request {
		all, some := kmsg.NewPtrListConfigResourcesRequest(), kmsg.NewPtrListConfigResourcesRequest()
		some.ResourceTypes = []int8{2, 32}
		odd := kmsg.NewPtrListConfigResourcesRequest()
		odd.ResourceTypes = []int8{99}
		if version < 1 {
			return []kmsg.Request{all}
		}
		return []kmsg.Request{all, some, odd}
	},
}

// A member as kgo is one: it reads what there is and goes.
func member(hold time.Duration, opts ...kgo.Opt) {
	opts = append(opts, kgo.SeedBrokers(bootstrap), kgo.ClientID("franz-go"), kgo.DisableClientMetrics(), kgo.ConsumeTopics(grouped),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hold)
	defer cancel()
	for ctx.Err() == nil {
		cl.PollFetches(ctx)
	}
	cl.Close()
}

// Two members, the second of which comes when the first one has all, and goes before it.
func members(opts ...kgo.Opt) {
	var both sync.WaitGroup
	both.Add(2)
	go func() { defer both.Done(); member(14*time.Second, opts...) }()
	go func() { defer both.Done(); time.Sleep(4 * time.Second); member(5*time.Second, opts...) }()
	both.Wait()
}

// Every version of the APIs of groups and of administration; what is asked of members waits for its turn.
func groups() {
	for version := int16(0); version <= 9; version++ {
		classic(version)
	}
	for version := int16(0); version <= 1; version++ {
		next(version)
		share(version + 1)
	}
	for _, s := range []span{{43, 0, 2}, {45, 0, 1}, {46, 0, 0}, {49, 0, 1}, {48, 0, 1}, {51, 0, 0}, {50, 0, 0}, {55, 0, 2}, {57, 0, 2}, {74, 0, 1}} {
		for version := s.low; version <= s.high; version++ {
			cl := client(s.key, version)
			for _, request := range administering[s.key](version) {
				ask(cl, request)
			}
			cl.Close()
		}
	}
}

// How kgo itself behaves in a group: "cooperative", "consumer" (KIP-848) or "share".
func groupOf(kind string) {
	beat := kgo.HeartbeatInterval(time.Second)
	switch kind {
	case "cooperative":
		members(kgo.ConsumerGroup("kgo-cooperative"), beat)
	case "static":
		member(4*time.Second, kgo.ConsumerGroup("kgo-static"), kgo.InstanceID("one"), beat)
		member(4*time.Second, kgo.ConsumerGroup("kgo-static"), kgo.InstanceID("one"), beat)
	case "consumer":
		members(kgo.ConsumerGroup("kgo-consumer"), kgo.ServerSideBalancer(), beat)
	case "share":
		members(kgo.ShareGroup("kgo-share"))
	default:
		fmt.Fprintln(os.Stderr, "no such kind: "+kind)
		os.Exit(2)
	}
}
