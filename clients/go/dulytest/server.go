// Package dulytest starts a server for tests, whose clock stands still until it is moved: half an
// hour in a millisecond.
package dulytest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"duly"
)

var namespaces atomic.Int64

// Server is a server in a process of its own, on free ports.
type Server struct {
	URL, AdminURL string
	store         string
	folder        string
	process       *exec.Cmd
	t             testing.TB
}

// Start starts a server in memory, whose clock Advance moves; it ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartOn(t, "memory:")
}

// StartOn starts a server on a store, such as sqlite:jobs.db in the folder of the test; one that is
// not in memory has the clock of the machine, and survives Kill and Restart.
func StartOn(t testing.TB, store string) *Server {
	t.Helper()
	s := &Server{store: store, folder: t.TempDir(), t: t}
	t.Cleanup(s.Kill) // also if it does not start
	s.Restart()
	return s
}

// Restart starts it again, on the addresses that it had before. The program is that of
// DULY_PROGRAM, or duly on the path.
func (s *Server) Restart() {
	s.t.Helper()
	program := os.Getenv("DULY_PROGRAM")
	if program == "" {
		program = "duly"
	}
	address := func(url string) string {
		if url == "" {
			return "127.0.0.1:0"
		}
		return strings.TrimPrefix(url, "http://")
	}
	arguments := []string{"serve", "--store", s.store, "--listen", address(s.URL), "--admin-listen", address(s.AdminURL), "--stop-with-stdin"}
	if s.store == "memory:" {
		arguments = append(arguments, "--clock", "manual")
	}
	// A path is one from here: the server has a folder of its own.
	if path, err := exec.LookPath(program); err == nil {
		if path, err = filepath.Abs(path); err == nil {
			program = path
		}
	}
	process := exec.Command(program, arguments...)
	process.Dir = s.folder
	process.Env = append(environment(), "DULY_SERVER__LOG__FORMAT=json", "DULY_SERVER__LOG__ACCESS=false")
	process.Stderr = os.Stderr
	// It ends with this process, even if that is killed.
	_, err := process.StdinPipe()
	var output io.ReadCloser
	if err == nil {
		output, err = process.StdoutPipe()
	}
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		s.t.Fatalf("%s did not start: %v; set DULY_PROGRAM to the program duly", program, err)
	}
	s.process = process
	lines := bufio.NewReader(output)
	found := map[string]string{}
	for len(found) < 2 {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			s.t.Fatalf("%s ended before it listened: %s", program, line)
		}
		var entry struct{ Message, Listener, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Message == "listening" {
			found[entry.Listener] = "http://" + entry.Address
		}
	}
	s.URL, s.AdminURL = found["api"], found["admin"]
	// A pipe that nobody reads would block the server.
	go func() { _, _ = io.Copy(io.Discard, lines) }()
}

// environment returns the environment without the settings of a real server, which name a real store
// or outbox.
func environment() []string {
	var others []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(strings.ToUpper(variable), "DULY_") {
			others = append(others, variable)
		}
	}
	return others
}

// Kill kills it, as by kill -9.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Process.Kill() // it may have ended
		_ = s.process.Wait()         // by the kill
		s.process = nil
	}
}

// Client returns a client in a namespace of its own.
func (s *Server) Client() *duly.Client {
	s.t.Helper()
	namespace := fmt.Sprintf("test-%d-%d", os.Getpid(), namespaces.Add(1))
	var made struct{ Token string }
	s.admin(http.MethodPost, "/token/"+namespace+"?description=test", nil, &made)
	client, err := duly.NewClient(s.URL, made.Token, namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

type clock struct {
	NowMS int64 `json:"now_ms"`
}

// Now returns the time that the clock shows.
func (s *Server) Now() time.Time {
	s.t.Helper()
	var shown clock
	s.admin(http.MethodGet, "/clock", nil, &shown)
	return time.UnixMilli(shown.NowMS)
}

// Advance moves the clock; it returns when everything that became due can be leased.
func (s *Server) Advance(by time.Duration) time.Time {
	s.t.Helper()
	return s.AdvanceSettling(by, 0)
}

// AdvanceSettling moves the clock, and at each instant on the way waits up to settle of real time
// for workers to end what is due.
func (s *Server) AdvanceSettling(by, settle time.Duration) time.Time {
	s.t.Helper()
	body := map[string]int64{"by_ms": by.Milliseconds(), "settle_ms": settle.Milliseconds()}
	var shown clock
	s.admin(http.MethodPost, "/clock/advance", body, &shown)
	return time.UnixMilli(shown.NowMS)
}

func (s *Server) admin(method, path string, body, into any) {
	s.t.Helper()
	var encoded []byte
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		encoded = text
	}
	request, err := http.NewRequest(method, s.AdminURL+path, bytes.NewReader(encoded))
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %d %s %v", method, path, response.StatusCode, text, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		s.t.Fatalf("%s %s: %s: %v", method, path, text, err)
	}
}
