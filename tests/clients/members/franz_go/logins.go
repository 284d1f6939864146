// Clients that log in, rightly and wrongly: main logins CASES. The cases and the answers are described in tests/clients/logins.py.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type login struct {
	Name, Bootstrap, Mechanism, User, Password, Token, Ca, Certificate, Topic string
	Refused                                                                   bool
}

func (each login) tls() (*tls.Config, error) {
	pem, err := os.ReadFile(each.Ca)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if each.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(each.Certificate, each.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (each login) mechanism() sasl.Mechanism {
	switch each.Mechanism {
	case "PLAIN":
		return plain.Auth{User: each.User, Pass: each.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: each.User, Pass: each.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: each.User, Pass: each.Password}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: each.Token}.AsMechanism()
}

func (each login) play() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(each.Bootstrap), kgo.RequestRetries(1), kgo.ConsumeTopics(each.Topic),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })}
	if each.Ca != "" {
		config, err := each.tls()
		if err != nil {
			return err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if each.Mechanism != "" {
		options = append(options, kgo.SASL(each.mechanism()))
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

func playLogins(file string) {
	var cases []login
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	for _, each := range cases {
		all.Add(1)
		go func() {
			defer all.Done()
			outcome := "ok"
			if err := each.play(); err != nil {
				outcome = strings.ReplaceAll(err.Error(), "\n", " ")
			}
			fmt.Printf("%s\t%s\n", each.Name, outcome)
		}()
	}
	all.Wait()
}
