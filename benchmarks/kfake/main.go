// franz-go's kfake as a broker of its own, for benchmarks: kfake PORT [FOLDER [sync]]. Without a folder it keeps everything in
// memory; with sync each batch is on the disk before it is acknowledged.
package main

import (
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port), kfake.AllowAutoTopicCreation()}
	if len(os.Args) > 2 {
		options = append(options, kfake.DataDir(os.Args[2]))
	}
	if len(os.Args) > 3 && os.Args[3] == "sync" {
		options = append(options, kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	cluster.Close()
}
