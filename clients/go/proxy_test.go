package duly_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"duly"
)

// forgetful returns the address of a proxy that passes connections on to another address, and what
// lets it forget those that there are: nothing more comes by them, and they are not closed.
func forgetful(t testing.TB, to string) (address string, forget func()) {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { listener.Close() })
	var forgotten atomic.Int64
	pass := func(from, to net.Conn, number int64) {
		part := make([]byte, 1<<16)
		for {
			length, err := from.Read(part)
			if err != nil {
				to.Close()
				return
			}
			if number > forgotten.Load() {
				_, _ = to.Write(part[:length]) // what fails is closed by the other side
			}
		}
	}
	var count atomic.Int64
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			number := count.Add(1)
			go pass(client, server, number)
			go pass(server, client, number)
		}
	}()
	return listener.Addr().String(), func() { forgotten.Store(count.Load()) }
}

// As a balancer or a network that has forgotten a connection: the client finds another one, where
// the server offers HTTP/2 as well.
func TestAConnectionThatIsDeadIsNotUsedAgain(t *testing.T) {
	for _, hasHTTP2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
			if request.Method == http.MethodPost {
				_, _ = io.Copy(io.Discard, request.Body) // the client sees to it
				fmt.Fprint(response, `[{"id": "7", "due_ms": 0, "duplicate": true}]`)
			}
		}))
		server.EnableHTTP2 = hasHTTP2
		server.StartTLS()
		t.Cleanup(server.Close)
		address, forget := forgetful(t, server.Listener.Addr().String())
		client := must[*duly.Client](t)(duly.NewClient("https://"+address, "x", "ns"))
		usual := client.HTTP.Transport.(*http.Transport).Clone()
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		if usual.TLSClientConfig == nil {
			usual.TLSClientConfig = &tls.Config{}
		}
		usual.TLSClientConfig.RootCAs = roots
		client.HTTP.Transport = usual
		push := func(within time.Duration) error {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			_, err := client.Push(ctx, "q", duly.Event{Payload: 1})
			return err
		}
		check(t, push(time.Minute))
		forget()
		if push(300*time.Millisecond) == nil {
			t.Fatal("it has been answered")
		}
		if err := push(20 * time.Second); err != nil {
			t.Errorf("HTTP/2 %v: %v", hasHTTP2, err)
		}
		server.CloseClientConnections()
	}
}
