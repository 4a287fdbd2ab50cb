package duly_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"duly"
	"duly/dulytest"
)

func TestNothingIsLostWhenTheServerIsKilled(t *testing.T) {
	const count, kills = 600, 3
	server := dulytest.StartOn(t, "sqlite:jobs.db")
	client := server.Client()
	var mutex sync.Mutex
	ends := map[int]int{}
	ended := func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return len(ends)
	}
	stop := runs(t, client, func(_ context.Context, lease *duly.Lease) error {
		var payload int
		if err := lease.Decode(&payload); err != nil {
			return duly.Bury(err.Error())
		}
		time.Sleep(2 * time.Millisecond) // work
		mutex.Lock()
		defer mutex.Unlock()
		ends[payload]++
		return nil
	}, duly.Options{Concurrency: 20, TTR: 2 * time.Second, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond})
	ids := make(chan []string, 1)
	go func() {
		var all []string
		for begin := 0; begin < count; begin += 20 {
			events := make([]duly.Event, 20)
			for n := range events {
				key := strconv.Itoa(begin + n)
				events[n] = duly.Event{Payload: begin + n, Attempts: 99, IdempotencyKey: key}
			}
			pushed, err := client.Push(ctx, "q", events...)
			for err != nil { // a start may take longer than the client repeats a push
				t.Log(err)
				pushed, err = client.Push(ctx, "q", events...)
			}
			for _, event := range pushed {
				all = append(all, event.ID)
			}
			time.Sleep(10 * time.Millisecond) // so that the kills come in between
		}
		ids <- all
	}()
	for number := 1; number <= kills; number++ {
		until(func() bool { return ended() >= number*count/10 })
		server.Kill()
		server.Restart()
	}
	until(func() bool { return ended() == count })
	all := map[string]bool{}
	for _, id := range <-ids {
		all[id] = true
		until(func() bool { return state(t, client, id) == "done" })
	}
	stop()
	if len(all) != count {
		t.Fatalf("%d ids", len(all))
	}
}

func TestAServerEndsWithATestThatIsKilled(t *testing.T) {
	const killed = "TEST_THAT_IS_KILLED"
	if os.Getenv(killed) != "" {
		fmt.Println(dulytest.Start(t).AdminURL)
		time.Sleep(time.Hour)
	}
	process := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	process.Env = append(os.Environ(), killed+"=1")
	output := must[io.ReadCloser](t)(process.StdoutPipe())
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(must[string](t)(bufio.NewReader(output).ReadString('\n')))
	isThere := func() bool {
		response, err := http.Get(url + "/clock")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	}
	if !isThere() {
		t.Fatal("it is not there: ", url)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // by the kill
	for isThere() {
		time.Sleep(10 * time.Millisecond)
	}
}
