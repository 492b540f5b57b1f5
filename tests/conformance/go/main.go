// A member of a consumer group with franz-go: bootstrap server, topic, group and protocol are its arguments.
//
// It says what it owns and what it reads, one JSON object a line, in the words of Kafka's VerifiableConsumer; commits
// what it has read before it gives partitions up; leaves on SIGTERM.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type event struct {
	Name       string  `json:"name"`
	Partitions []place `json:"partitions,omitempty"`
	Partition  int32   `json:"partition"`
	Offset     int64   `json:"offset"`
}

var output sync.Mutex

func say(told event) {
	output.Lock()
	defer output.Unlock()
	line, _ := json.Marshal(told)
	fmt.Println(string(line))
}

func tell(name string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
		if name == "partitions_revoked" {
			check(client.CommitUncommittedOffsets(ctx))
		}
		var places []place
		for topic, numbers := range partitions {
			for _, number := range numbers {
				places = append(places, place{topic, number})
			}
		}
		say(event{Name: name, Partitions: places})
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	bootstrap, topic, group, protocol := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(tell("partitions_assigned")),
		kgo.OnPartitionsRevoked(tell("partitions_revoked")),
		kgo.OnPartitionsLost(tell("partitions_lost")),
	}
	switch protocol {
	case "consumer":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())
	case "range":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				check(err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			say(event{Name: "record_data", Partition: record.Partition, Offset: record.Offset})
		})
		client.AllowRebalance()
	}
	check(client.CommitUncommittedOffsets(context.Background()))
	client.CloseAllowingRebalance()
	say(event{Name: "shutdown_complete"})
}
