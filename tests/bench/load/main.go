// The load of `make bench api`: one program for both servers, so that their figures differ by the servers alone.
//
// It reads one task a line from stdin and writes one result a line to stdout, both JSON. A request is a prepared block
// of bytes over a TLS connection that stays open. The marks in it have a fixed width and are overwritten in place, in
// the path and in the body, so that a body in protobuf keeps its lengths and nothing is encoded while the clock runs.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	clientMark = "CLIENT____"          // the number of the client
	numberMark = "NUMBER____"          // the number of the request, over all clients
	stampMark  = "STAMP______________" // the time of sending, in nanoseconds
	stamped    = "stamp-"              // stands before a stamp, in requests and in events
	quietAfter = 20 * time.Second      // a watch that brings nothing for so long has lost events
)

// Server names one server and the user of the load.
type Server struct {
	Address, Authority, Token string
}

// Request is one request, with marks.
type Request struct {
	Method, Path, Media, Accept string
	Body                        []byte
}

// Task is one measurement. It ends after Seconds, or after Count requests. Rate: requests a second over all clients; 0
// for as many as they can. With Watchers, so many watches of Watch are open meanwhile.
type Task struct {
	Server   Server
	Request  Request
	Clients  int
	Seconds  float64
	Count    int64
	First    int64 // the first request's number
	Rate     float64
	Watchers int
	Watch    Request
}

// Result has times in milliseconds. Events and Lag are of the watches: lags run from the sending of a write to the
// arrival of its event.
type Result struct {
	Error                  string
	Requests, Bytes        int64
	Seconds, P50, P99, Max float64
	Events, Wanted         int64
	EventSeconds           float64
	LagP50, LagP99, LagMax float64
}

type client struct {
	conn   *tls.Conn
	reader *bufio.Reader
	block  []byte
	number []int // offsets of marks in block
	stamp  []int
	http   *http.Request
}

func open(server Server, request Request, index int64) (*client, error) {
	pool := x509.NewCertPool()
	authority, err := os.ReadFile(server.Authority)
	if err != nil {
		return nil, err
	}
	pool.AppendCertsFromPEM(authority)
	conn, err := tls.Dial("tcp", server.Address, &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(
		"%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUser-Agent: bench/1\r\nAccept: %s\r\n",
		request.Method, request.Path, server.Address, server.Token, request.Accept,
	)
	if request.Method != http.MethodGet {
		head += fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\n", request.Media, len(request.Body))
	}
	block := append([]byte(head+"\r\n"), request.Body...)
	for _, at := range places(block, clientMark) {
		write(block[at:at+len(clientMark)], index)
	}
	return &client{
		conn: conn, reader: bufio.NewReaderSize(conn, 1<<16), block: block,
		number: places(block, numberMark), stamp: places(block, stampMark),
		http: &http.Request{Method: request.Method},
	}, nil
}

func places(block []byte, mark string) []int {
	var found []int
	for from := 0; ; {
		at := bytes.Index(block[from:], []byte(mark))
		if at < 0 {
			return found
		}
		found = append(found, from+at)
		from += at + len(mark)
	}
}

// write puts a number into the whole of a mark, with zeros before it.
func write(mark []byte, number int64) {
	for at := len(mark) - 1; at >= 0; at-- {
		mark[at] = byte('0' + number%10)
		number /= 10
	}
}

func (c *client) send(number int64) error {
	for _, at := range c.number {
		write(c.block[at:at+len(numberMark)], number)
	}
	for _, at := range c.stamp {
		write(c.block[at:at+len(stampMark)], time.Now().UnixNano())
	}
	_, err := c.conn.Write(c.block)
	return err
}

// answer reads the head of an answer. The caller reads the body.
func (c *client) answer() (*http.Response, error) {
	answer, err := http.ReadResponse(c.reader, c.http)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 500))
		return nil, fmt.Errorf("%s: %s", answer.Status, text)
	}
	return answer, nil
}

func (c *client) ask(number int64) (int64, error) {
	if err := c.send(number); err != nil {
		return 0, err
	}
	answer, err := c.answer()
	if err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, answer.Body)
}

// load runs the requests of a task, and adds to the result.
func load(task Task, result *Result) error {
	clients := make([]*client, task.Clients)
	for index := range clients {
		opened, err := open(task.Server, task.Request, int64(index))
		if err != nil {
			return err
		}
		defer opened.conn.Close()
		clients[index] = opened
	}
	var next, size atomic.Int64
	next.Store(task.First)
	times := make([][]float64, task.Clients)
	errors := make([]error, task.Clients)
	begin := time.Now()
	end := begin.Add(time.Duration(task.Seconds * float64(time.Second)))
	var group sync.WaitGroup
	for index, one := range clients {
		group.Go(func() {
			for round := 0; task.Count > 0 || time.Now().Before(end); round++ {
				if task.Rate > 0 {
					turn := float64(round*task.Clients+index) / task.Rate
					time.Sleep(time.Until(begin.Add(time.Duration(turn * float64(time.Second)))))
				}
				number := next.Add(1) - 1
				if task.Count > 0 && number >= task.First+task.Count {
					return
				}
				sent := time.Now()
				got, err := one.ask(number)
				if err != nil {
					errors[index] = err
					return
				}
				times[index] = append(times[index], time.Since(sent).Seconds()*1000)
				size.Add(got)
			}
		})
	}
	group.Wait()
	result.Seconds = time.Since(begin).Seconds()
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	all := slices.Concat(times...)
	result.Requests, result.Bytes = int64(len(all)), size.Load()
	result.P50, result.P99, result.Max = spread(all)
	return nil
}

func spread(values []float64) (median, p99, most float64) {
	if len(values) == 0 {
		return 0, 0, 0
	}
	slices.Sort(values)
	return values[len(values)/2], values[len(values)*99/100], values[len(values)-1]
}

// watching runs the writes of a task beside its watches.
func watching(task Task, result *Result) error {
	var events, latest atomic.Int64
	var group sync.WaitGroup
	lags := make([][]float64, task.Watchers)
	watchers := make([]*client, 0, task.Watchers)
	finish := sync.OnceFunc(func() {
		for _, watcher := range watchers {
			watcher.conn.Close()
		}
		group.Wait()
	})
	defer finish()
	for index := range task.Watchers {
		watcher, err := open(task.Server, task.Watch, int64(index))
		if err != nil {
			return err
		}
		watchers = append(watchers, watcher)
		if err := watcher.send(0); err != nil {
			return err
		}
		answer, err := watcher.answer()
		if err != nil {
			return err
		}
		group.Go(func() {
			follow(answer.Body, func(lag float64) {
				lags[index] = append(lags[index], lag)
				events.Add(1)
				latest.Store(time.Now().UnixNano())
			})
		})
	}
	begin := time.Now()
	latest.Store(begin.UnixNano())
	if err := load(task, result); err != nil {
		return err
	}
	result.Wanted = result.Requests * int64(task.Watchers)
	for events.Load() < result.Wanted && time.Since(time.Unix(0, latest.Load())) < quietAfter {
		time.Sleep(5 * time.Millisecond)
	}
	finish()
	result.Events = events.Load()
	result.EventSeconds = time.Unix(0, latest.Load()).Sub(begin).Seconds()
	result.LagP50, result.LagP99, result.LagMax = spread(slices.Concat(lags...))
	return nil
}

// follow calls `seen` with the lag of every stamp in a stream, until the stream ends.
func follow(stream io.Reader, seen func(lag float64)) {
	buffer, kept := make([]byte, 1<<17), 0
	for {
		got, err := stream.Read(buffer[kept:])
		data, now := buffer[:kept+got], time.Now().UnixNano()
		for {
			at := bytes.Index(data, []byte(stamped))
			if at < 0 || at+len(stamped)+len(stampMark) > len(data) {
				data = data[max(at, 0):]
				if at < 0 {
					data = data[max(0, len(data)-len(stamped)):]
				}
				break
			}
			stamp := int64(0)
			for _, digit := range data[at+len(stamped) : at+len(stamped)+len(stampMark)] {
				stamp = stamp*10 + int64(digit-'0')
			}
			seen(float64(now-stamp) / 1e6)
			data = data[at+len(stamped)+len(stampMark):]
		}
		kept = copy(buffer, data)
		if err != nil {
			return
		}
	}
}

func main() {
	tasks, results := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var task Task
		if err := tasks.Decode(&task); err != nil {
			return
		}
		var result Result
		run := load
		if task.Watchers > 0 {
			run = watching
		}
		if err := run(task, &result); err != nil {
			result.Error = err.Error()
		}
		if err := results.Encode(result); err != nil {
			return
		}
	}
}
