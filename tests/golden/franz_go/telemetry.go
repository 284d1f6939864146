package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A producer and a consumer that push their own metrics, until they close.
func telemetry() {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ClientID("franz-go"), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics("telemetry"), kgo.ConsumerGroup("telemetry-franz-go"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		panic(err)
	}
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) {
		cl.ProduceSync(context.Background(), &kgo.Record{Topic: "telemetry", Value: []byte("value")})
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		cl.PollFetches(ctx)
		cancel()
	}
	cl.Close()
}
