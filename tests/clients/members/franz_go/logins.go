// Clients that log in, rightly and wrongly: main logins CASES. The cases and the answers are described in tests/clients/logins.py.
package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"minibroker/tests/clients/members/logins"
)

func mechanismOf(each logins.Login) sasl.Mechanism {
	switch each.Mechanism {
	case "PLAIN":
		return plain.Auth{User: each.User, Pass: each.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: each.User, Pass: each.Password, IsToken: each.DelegationToken}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: each.User, Pass: each.Password, IsToken: each.DelegationToken}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: each.Token}.AsMechanism()
}

func playLogin(each logins.Login) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(each.Bootstrap), kgo.RequestRetries(1), kgo.ConsumeTopics(each.Topic),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })}
	if each.Ca != "" {
		config, err := each.TLS()
		if err != nil {
			return err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if each.Mechanism != "" {
		options = append(options, kgo.SASL(mechanismOf(each)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil || each.Refused {
		return err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: each.Topic, Value: []byte(each.Name)}).FirstErr(); err != nil {
		return err
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if string(record.Value) == each.Name {
				return nil
			}
		}
	}
}

func playLogins(file string) { logins.Play(file, playLogin) }
