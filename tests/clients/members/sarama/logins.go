// Clients that log in, rightly and wrongly: main logins CASES. The cases and the answers are described in tests/clients/logins.py.
package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"minibroker/tests/clients/members/logins"
)

// As in sarama's examples: it leaves the computation of SCRAM to its caller.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.conversation = client.NewConversation()
	}
	return err
}

func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }

func (c *scramClient) Done() bool { return c.conversation.Done() }

type tokenProvider string

func (text tokenProvider) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(text)}, nil
}

func configOf(each logins.Login) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Metadata.Retry.Max = 0
	config.Metadata.Retry.Backoff = 50 * time.Millisecond
	config.Producer.Return.Successes = true
	config.Net.SASL.Enable = each.Mechanism != ""
	config.Net.SASL.Mechanism = sarama.SASLMechanism(each.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = each.User, each.Password
	config.Net.SASL.TokenProvider = tokenProvider(each.Token)
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if each.Mechanism == sarama.SASLTypeSCRAMSHA256 {
			return &scramClient{hash: sha256.New}
		}
		return &scramClient{hash: sha512.New}
	}
	if each.Ca != "" {
		found, err := each.TLS()
		if err != nil {
			return nil, err
		}
		config.Net.TLS.Enable, config.Net.TLS.Config = true, found
	}
	return config, nil
}

func playLogin(each logins.Login) error {
	config, err := configOf(each)
	if err != nil {
		return err
	}
	client, err := sarama.NewClient([]string{each.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	if each.Refused {
		return nil
	}
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return err
	}
	_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: each.Topic, Value: sarama.StringEncoder(each.Name)})
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	partition, err := consumer.ConsumePartition(each.Topic, 0, offset)
	if err != nil {
		return err
	}
	select {
	case record := <-partition.Messages():
		if string(record.Value) != each.Name {
			return fmt.Errorf("read %s", record.Value)
		}
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("no record")
	}
}

func playLogins(file string) { logins.Play(file, playLogin) }
