// Transactional producers of franz-go, and consumers of both isolation levels, that do what standard input tells them: main BOOTSTRAP.
//
// The commands stand in tests/clients/spoken_clients.py. It knows neither "offsets" nor "committed": franz-go commits offsets in a
// transaction only as a member of a group.
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

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience = 30 * time.Second
	surplus  = 200 * time.Millisecond // how long a reader waits for records that nobody expects; the client tells no position
)

type producer struct {
	client *kgo.Client
	lock   sync.Mutex
	failed error // the first record that was refused since the last flush
}

var producers = map[string]*producer{}

func open(bootstrap, handle, id, timeoutMs string) error {
	milliseconds, err := strconv.Atoi(timeoutMs)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.TransactionTimeout(time.Duration(milliseconds)*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	if err != nil {
		return err
	}
	producers[handle] = &producer{client: client}
	_, _, err = client.ProducerID(context.Background()) // InitProducerId now, not with the first record
	return err
}

func (p *producer) send(topic, partition string, values []string) error {
	number, err := strconv.Atoi(partition)
	for _, value := range values {
		record := &kgo.Record{Topic: topic, Partition: int32(number), Value: []byte(value)}
		p.client.Produce(context.Background(), record, func(_ *kgo.Record, failure error) {
			p.lock.Lock()
			defer p.lock.Unlock()
			if p.failed == nil {
				p.failed = failure
			}
		})
	}
	return err
}

func (p *producer) flush() error {
	err := p.client.Flush(context.Background())
	p.lock.Lock()
	defer p.lock.Unlock()
	failed := p.failed
	p.failed = nil
	return errors.Join(err, failed)
}

func (p *producer) end(commit kgo.TransactionEndTry) error {
	if err := p.flush(); err != nil && commit == kgo.TryCommit {
		return err
	}
	return p.client.EndTransaction(context.Background(), commit)
}

// TOPIC PARTITION COUNT for each partition wanted; prints TOPIC PARTITION OFFSET VALUE of what comes until the counts are reached.
func read(bootstrap, isolation string, words []string) error {
	level := kgo.ReadUncommitted()
	if isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	missing, wanted := 0, map[string]map[int32]kgo.Offset{}
	for i := 0; i < len(words); i += 3 {
		partition, _ := strconv.Atoi(words[i+1])
		count, _ := strconv.Atoi(words[i+2])
		missing += count
		if wanted[words[i]] == nil {
			wanted[words[i]] = map[int32]kgo.Offset{}
		}
		wanted[words[i]][int32(partition)] = kgo.NewOffset().At(0)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.FetchIsolationLevel(level), kgo.ConsumePartitions(wanted), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		wait := surplus
		if missing > 0 {
			wait = patience
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		fetches := client.PollFetches(ctx)
		done := ctx.Err() != nil
		cancel()
		if done && missing > 0 {
			return fmt.Errorf("%d records do not come", missing)
		}
		if done {
			return nil
		}
		for _, failure := range fetches.Errors() {
			return failure.Err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			missing--
			fmt.Printf("%s\t%d\t%d\t%s\n", r.Topic, r.Partition, r.Offset, r.Value)
		})
	}
}

func answer(bootstrap string, words []string) error {
	switch words[0] {
	case "open":
		return open(bootstrap, words[1], words[2], words[3])
	case "read":
		return read(bootstrap, words[1], words[2:])
	}
	p := producers[words[1]]
	switch words[0] {
	case "begin":
		return p.client.BeginTransaction()
	case "send":
		return p.send(words[2], words[3], words[4:])
	case "flush":
		return p.flush()
	case "commit":
		return p.end(kgo.TryCommit)
	case "abort":
		return p.end(kgo.TryAbort)
	case "close":
		delete(producers, words[1])
		p.client.Close()
		return nil
	}
	return errors.New("no command: " + words[0])
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if err := answer(os.Args[1], strings.Split(strings.TrimSuffix(line, "\n"), "\t")); err != nil {
			fmt.Println("failed " + strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok")
		}
	}
}
