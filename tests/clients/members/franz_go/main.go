// Members of groups of franz-go that do what standard input tells them: main BOOTSTRAP. The commands stand in
// tests/clients/group_members.py; more of them that only this program knows:
//
//	copy MEMBER GROUP FROM TO name=value ...   a GroupTransactSession that writes what it reads to another topic, and ends with leave
//	lag GROUP                                  kadm's view: STATE PROTOCOL MEMBERS, then TOPIC PARTITION COMMITTED END LAG MEMBER for each
//	moves MEMBER                               "gained" | "gave" | "lost" TOPIC PARTITION NANOSECONDS since the last time
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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	tick      = 50 * time.Millisecond
	heartbeat = 200 * time.Millisecond
	patience  = 30 * time.Second
)

type place struct {
	topic     string
	partition int32
}

// A member polls in a goroutine of its own. While it has what a poll gave, no partition goes (BlockRebalanceOnPoll).
type member struct {
	client  *kgo.Client
	session *kgo.GroupTransactSession
	to      string
	leaving chan struct{}
	gone    chan struct{}

	lock  sync.Mutex // of all below
	owned map[place]bool
	lines []string
	moves []string
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

func (m *member) move(what string, partitions map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	now := time.Now().UnixNano()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			if what == "gained" {
				m.owned[place{topic, number}] = true
			} else {
				delete(m.owned, place{topic, number})
			}
			m.moves = append(m.moves, fmt.Sprintf("%s\t%s\t%d\t%d", what, topic, number, now))
		}
	}
}

func (m *member) options(group, topics string, settings map[string]string) ([]kgo.Opt, error) {
	milliseconds, err := strconv.Atoi(settings["session_ms"])
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ClientID("franz-go"), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMaxAge(300 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.SessionTimeout(time.Duration(milliseconds) * time.Millisecond), kgo.HeartbeatInterval(heartbeat), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, now map[string][]int32) { m.move("gained", now) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.move("lost", gone) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, gone map[string][]int32) {
			if m.session == nil {
				if err := client.CommitUncommittedOffsets(ctx); err != nil {
					m.say("trouble\t%v", err)
				}
			}
			m.move("gave", gone)
		}),
	}
	switch settings["assignor"] {
	case "range":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "roundrobin":
		options = append(options, kgo.Balancers(kgo.RoundRobinBalancer()))
	case "cooperative-sticky":
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.StickyBalancer())) // of KIP-848: uniform
	}
	if settings["protocol"] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if settings["instance"] != "" {
		options = append(options, kgo.InstanceID(settings["instance"]))
	}
	if strings.HasPrefix(topics, "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	return options, nil
}

func newMember(words []string) (*member, []kgo.Opt, error) {
	settings := map[string]string{}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		settings[name] = value
	}
	m := &member{owned: map[place]bool{}, leaving: make(chan struct{}), gone: make(chan struct{})}
	options, err := m.options(words[0], words[1], settings)
	return m, options, err
}

func join(name string, words []string) error {
	m, options, err := newMember(words)
	if err != nil {
		return err
	}
	if m.client, err = kgo.NewClient(append(options, kgo.DisableAutoCommit())...); err != nil {
		return err
	}
	members[name] = m
	go m.poll(m.client.PollFetches, func(kgo.Fetches) {}, m.client.AllowRebalance, m.client.CloseAllowingRebalance)
	return nil
}

func copyRecords(name string, words []string) error {
	m, options, err := newMember(append([]string{words[0], words[1]}, words[3:]...))
	if err != nil {
		return err
	}
	m.to = words[2]
	options = append(options, kgo.TransactionalID(name), kgo.RequireStableFetchOffsets(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if m.session, err = kgo.NewGroupTransactSession(options...); err != nil {
		return err
	}
	members[name] = m
	go m.poll(m.session.PollFetches, m.transact, m.session.AllowRebalance, m.session.CloseAllowingRebalance)
	return nil
}

func (m *member) poll(fetch func(context.Context) kgo.Fetches, use func(kgo.Fetches), allow, end func()) {
	defer close(m.gone)
	for {
		select {
		case <-m.leaving:
			end()
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), tick)
		fetches := fetch(ctx)
		cancel()
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				m.say("trouble\t%v", err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) { m.say("read\t%s\t%d\t%d\t%s", r.Topic, r.Partition, r.Offset, r.Value) })
		use(fetches)
		allow()
	}
}

// One transaction for what one poll gave: both the copies and the offsets, or neither.
func (m *member) transact(fetches kgo.Fetches) {
	if fetches.Empty() || fetches.NumRecords() == 0 {
		return
	}
	if err := m.session.Begin(); err != nil {
		m.say("trouble\tbegin: %v", err)
		return
	}
	fetches.EachRecord(func(r *kgo.Record) {
		m.session.Produce(context.Background(), &kgo.Record{Topic: m.to, Value: r.Value}, func(_ *kgo.Record, err error) {
			if err != nil && !errors.Is(err, kgo.ErrAborting) {
				m.say("trouble\tproduce: %v", err)
			}
		})
	})
	if committed, err := m.session.End(context.Background(), kgo.TryCommit); err != nil {
		m.say("trouble\tend: %v", err)
	} else if !committed {
		m.say("aborted")
	}
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

func (m *member) moved() {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, line := range m.moves {
		fmt.Println(line)
	}
	m.moves = nil
}

func (m *member) leave() error {
	close(m.leaving)
	select {
	case <-m.gone:
		return nil
	case <-time.After(patience):
		return errors.New("it does not leave")
	}
}

func lag(group string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lags, err := kadm.NewClient(client).Lag(ctx, group)
	if err != nil {
		return err
	}
	found := lags[group]
	if err := found.Error(); err != nil {
		return err
	}
	fmt.Printf("%s\t%s\t%d\n", found.State, found.Protocol, len(found.Members))
	for _, each := range found.Lag.Sorted() {
		owner := ""
		if each.Member != nil {
			owner = each.Member.ClientID
		}
		fmt.Printf("%s\t%d\t%d\t%d\t%d\t%s\n", each.Topic, each.Partition, each.Commit.At, each.End.Offset, each.Lag, owner)
	}
	return nil
}

// What an administrator is told of a group; nothing when it is not among those that there are.
func sees(ctx context.Context, admin *kadm.Client, group string) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil || listed[group].Group != group {
		return err
	}
	described, err := admin.DescribeGroups(ctx, group)
	if err != nil {
		return err
	}
	fmt.Printf("%s\t%d\n", described[group].State, len(described[group].Members))
	offsets, err := admin.FetchOffsets(ctx, group)
	for _, each := range offsets.Sorted() {
		fmt.Printf("%s\t%d\t%d\n", each.Topic, each.Partition, each.At)
	}
	return err
}

func administer(words []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin, group := kadm.NewClient(client), words[1]
	switch words[0] {
	case "sees":
		return sees(ctx, admin, group)
	case "set":
		partition, _ := strconv.Atoi(words[3])
		offset, _ := strconv.Atoi(words[4])
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: words[2], Partition: int32(partition), At: int64(offset), LeaderEpoch: -1})
		return admin.CommitAllOffsets(ctx, group, offsets)
	}
	_, err = admin.DeleteGroup(ctx, group)
	return err
}

func answer(words []string) error {
	switch words[0] {
	case "join":
		return join(words[1], words[2:])
	case "copy":
		return copyRecords(words[1], words[2:])
	case "lag":
		return lag(words[1])
	case "sees", "set", "delete":
		return administer(words)
	}
	m := members[words[1]]
	switch words[0] {
	case "seen":
		m.seen()
	case "moves":
		m.moved()
	case "commit":
		return m.client.CommitUncommittedOffsets(context.Background())
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
