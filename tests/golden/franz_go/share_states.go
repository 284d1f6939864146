package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What brokers ask the share coordinator, about a group that it does not know, then about one that it does.
func shareStates() {
	admin := client(19, 7)
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "golden", 1, 1
	create.Topics = append(create.Topics, topic)
	id := ask(admin, create).(*kmsg.CreateTopicsResponse).Topics[0].TopicID
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKeys = 2, []string{"golden-shared:AAAAAAAAAAAAAAAAAAAAAQ:0"}
	for admin2 := client(10, 6); ; time.Sleep(200 * time.Millisecond) {
		if answer, err := find.RequestWith(context.Background(), admin2); err == nil && answer.Coordinators[0].ErrorCode == 0 {
			break
		}
	}
	time.Sleep(time.Second)
	for version := int16(0); version <= 1; version++ {
		for _, group := range []string{"golden-absent", "golden-shared"} {
			shareStatesOf(group, id, version)
		}
	}
}

func shareStatesOf(group string, id [16]byte, version int16) {
	send := func(key int16, highest int16, request kmsg.Request) {
		if version <= highest {
			cl := client(key, version)
			defer cl.Close()
			ask(cl, request)
		}
	}
	if group == "golden-shared" {
		initialize := kmsg.NewPtrInitializeShareGroupStateRequest()
		initialize.GroupID = group
		initialize.Topics = []kmsg.InitializeShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.InitializeShareGroupStateRequestTopicPartition{
			{Partition: 0, StateEpoch: 1, StartOffset: -1}}}}
		send(83, 0, initialize)
	}
	write := kmsg.NewPtrWriteShareGroupStateRequest()
	write.GroupID = group
	write.Topics = []kmsg.WriteShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.WriteShareGroupStateRequestTopicPartition{
		{Partition: 0, StateEpoch: 1, LeaderEpoch: 0, StartOffset: 3, DeliveryCompleteCount: 4,
			StateBatches: []kmsg.WriteShareGroupStateRequestTopicPartitionStateBatch{{FirstOffset: 3, LastOffset: 6, DeliveryState: 2, DeliveryCount: 1}}}}}}
	send(85, 1, write)
	read := kmsg.NewPtrReadShareGroupStateRequest()
	read.GroupID = group
	read.Topics = []kmsg.ReadShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateRequestTopicPartition{{Partition: 0}}}}
	send(84, 0, read)
	summary := kmsg.NewPtrReadShareGroupStateSummaryRequest()
	summary.GroupID = group
	summary.Topics = []kmsg.ReadShareGroupStateSummaryRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateSummaryRequestTopicPartition{{Partition: 0}}}}
	send(87, 1, summary)
	if version == 1 || group == "golden-absent" {
		remove := kmsg.NewPtrDeleteShareGroupStateRequest()
		remove.GroupID = group
		remove.Topics = []kmsg.DeleteShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.DeleteShareGroupStateRequestTopicPartition{{Partition: 0}}}}
		send(86, 0, remove)
	}
}
