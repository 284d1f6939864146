// Members of groups of sarama that do what standard input tells them: main BOOTSTRAP. The commands stand in tests/clients/group_members.py.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	heartbeat = 200 * time.Millisecond
	patience  = 30 * time.Second
)

type place struct {
	topic     string
	partition int32
}

// A member consumes in a goroutine of its own: one session a generation, one goroutine a partition in it.
type member struct {
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	gone   chan struct{}

	lock    sync.Mutex // of all below
	session sarama.ConsumerGroupSession
	owned   map[place]bool
	lines   []string
}

var (
	bootstrap string
	members   = map[string]*member{}
)

func (m *member) say(format string, values ...any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.lines = append(m.lines, fmt.Sprintf(format, values...))
}

// Setup begins a generation.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
	for topic, numbers := range session.Claims() {
		for _, number := range numbers {
			m.owned[place{topic, number}] = true
		}
	}
	return nil
}

// Cleanup ends one, while its offsets may still be committed.
func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = nil
	m.owned = map[place]bool{}
	return nil
}

// ConsumeClaim reads one partition until the generation ends.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			session.MarkMessage(message, "")
			m.say("read\t%s\t%d\t%d\t%s", message.Topic, message.Partition, message.Offset, message.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

func settingsOf(words []string) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V4_1_0_0
	config.ClientID = "sarama"
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Retry.Backoff = 100 * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = heartbeat
	config.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond
	config.Metadata.RefreshFrequency = 300 * time.Millisecond
	config.Metadata.Retry.Max = 100
	config.Metadata.Retry.Backoff = 50 * time.Millisecond
	assignors := map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(), "sticky": sarama.NewBalanceStrategySticky(),
	}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "assignor":
			config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{assignors[value]}
		case "instance":
			config.Consumer.Group.InstanceId = value
		case "session_ms":
			milliseconds, err := strconv.Atoi(value)
			if err != nil {
				return nil, err
			}
			config.Consumer.Group.Session.Timeout = time.Duration(milliseconds) * time.Millisecond
		}
	}
	return config, nil
}

func join(name, group, topic string, words []string) error {
	config, err := settingsOf(words)
	if err != nil {
		return err
	}
	consumers, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: consumers, cancel: cancel, gone: make(chan struct{}), owned: map[place]bool{}}
	members[name] = m
	go func() {
		for err := range consumers.Errors() {
			m.say("trouble\t%v", err)
		}
	}()
	go func() {
		defer close(m.gone)
		for ctx.Err() == nil {
			if err := consumers.Consume(ctx, []string{topic}, m); err != nil {
				m.say("trouble\t%v", err)
				time.Sleep(100 * time.Millisecond) // what a program does that goes on while no broker is there
			}
		}
	}()
	return nil
}

func (m *member) seen() {
	m.lock.Lock()
	defer m.lock.Unlock()
	for each := range m.owned {
		fmt.Printf("owns\t%s\t%d\n", each.topic, each.partition)
	}
	for _, line := range m.lines {
		fmt.Println(strings.ReplaceAll(line, "\n", " "))
	}
	m.lines = nil
}

func (m *member) commit() error {
	m.lock.Lock()
	session := m.session
	m.lock.Unlock()
	if session == nil {
		return errors.New("it is in no generation")
	}
	session.Commit() // what goes wrong comes as trouble
	return nil
}

func (m *member) leave() error {
	m.cancel()
	select {
	case <-m.gone:
		return m.group.Close()
	case <-time.After(patience):
		return errors.New("it does not leave")
	}
}

// What an administrator is told of a group; nothing when it is not among those that there are.
func sees(group string) error {
	config, _ := settingsOf(nil)
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer admin.Close()
	listed, err := admin.ListConsumerGroups()
	if _, found := listed[group]; err != nil || !found {
		return err
	}
	described, err := admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return err
	}
	fmt.Printf("%s\t%d\n", described[0].State, len(described[0].Members))
	offsets, err := admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return err
	}
	for topic, partitions := range offsets.Blocks {
		for partition, each := range partitions {
			fmt.Printf("%s\t%d\t%d\n", topic, partition, each.Offset)
		}
	}
	return nil
}

func remove(group string) error {
	config, _ := settingsOf(nil)
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.DeleteConsumerGroup(group)
}

func answer(words []string) error {
	switch words[0] {
	case "join":
		return join(words[1], words[2], words[3], words[4:])
	case "sees":
		return sees(words[1])
	case "delete":
		return remove(words[1])
	}
	m := members[words[1]]
	switch words[0] {
	case "seen":
		m.seen()
	case "commit":
		return m.commit()
	case "leave":
		return m.leave()
	default:
		return errors.New("no command: " + words[0])
	}
	return nil
}

func main() {
	if os.Args[1] == "logins" {
		playLogins(os.Args[2])
		return
	}
	bootstrap = os.Args[1]
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if err := answer(strings.Split(strings.TrimSuffix(line, "\n"), "\t")); err != nil {
			fmt.Println("failed " + strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok")
		}
	}
}
