// How many jobs a second does the client for Go push, and lease and settle? See ../../throughput.sh.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"duly"
)

func rate(many, atOnce int, work func() error) float64 {
	left, begin := int64(many), time.Now()
	var group sync.WaitGroup
	for i := 0; i < atOnce; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for atomic.AddInt64(&left, -1) >= 0 {
				if err := work(); err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	group.Wait()
	return float64(many) / time.Since(begin).Seconds()
}

func main() {
	many, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	atOnce, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	client, err := duly.NewClient(os.Args[1], os.Args[2], "shop")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	pushed := rate(many, atOnce, func() error {
		_, err := client.Push(ctx, "go", duly.Event{Payload: map[string]int{"order": 7}, Attempts: 3})
		return err
	})
	consumed := rate(many, atOnce, func() error {
		leases, err := client.Lease(ctx, "go", 1, time.Minute, 5*time.Second)
		if err != nil {
			return err
		}
		if len(leases) == 0 {
			return fmt.Errorf("no job is there")
		}
		return client.Settle(ctx, &leases[0], duly.Ack(nil))
	})
	fmt.Printf("%.0f %.0f\n", pushed, consumed)
}
