package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/internal/workbench"
	"qwb/internal/workbench/server"
)

// served is a server with methods of a test's own, and its folder.
type served struct {
	*server.Server
	base, folder string
	log          *bytes.Buffer
}

// bench are the methods of a bench.
var bench = workbench.Methods

// methods stand for those of the bench: what one asks for comes back, one changes, one fails, one has a bug.
var methods = []workbench.Method{
	{Name: "echo", Call: workbench.Call{Do: func(_ *workbench.Bench, _ context.Context, p json.RawMessage) (any, error) { return p, nil }}},
	{Name: "change", Changes: true, Call: workbench.Call{Do: func(b *workbench.Bench, ctx context.Context, _ json.RawMessage) (any, error) {
		return map[string]bool{"done": ctx.Err() == nil}, nil
	}}},
	{Name: "start", Call: workbench.Call{Do: func(*workbench.Bench, context.Context, json.RawMessage) (any, error) {
		return map[string]string{"job": "1"}, nil
	}}},
	{Name: "fail", Call: workbench.Call{Do: func(*workbench.Bench, context.Context, json.RawMessage) (any, error) {
		return nil, &qwb.NodeError{Stage: "infer", Node: "conv1", Op: "Conv", Err: errors.New("no")}
	}}},
	{Name: "bug", Call: workbench.Call{Do: func(*workbench.Bench, context.Context, json.RawMessage) (any, error) {
		panic("index out of range")
	}}},
}

func serve(t *testing.T) *served {
	t.Helper()
	before := workbench.Methods
	workbench.Methods = methods
	folder := t.TempDir()
	roots, err := server.OpenRoots(folder)
	require.NoError(t, err)
	bench := workbench.New(workbench.Options{Project: qwb.Project{Store: roots}, Roots: roots.Names()})
	page := fstest.MapFS{"index.html": {Data: []byte("<!doctype html>page")}, "app.js": {Data: []byte("x")}, "views/a.js": {Data: []byte("y")},
		"page.go": {Data: []byte("z")}}
	s := &served{&server.Server{Bench: bench, Roots: roots, Page: page, Token: server.NewToken()}, "", folder, &bytes.Buffer{}}
	s.Log = s.log
	l, err := server.Listen("127.0.0.1:0")
	require.NoError(t, err)
	s.base = "http://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
		bench.Close()
		assert.NoError(t, roots.Close())
		workbench.Methods = before
	})
	return s
}

// ask sends a request with the token and returns status, headers and body. headers are pairs; one of "Host" is that of the request, and an
// empty value takes a header away.
func (s *served) ask(t *testing.T, method, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-Qwb-Token", s.Token)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	a, err := http.DefaultTransport.RoundTrip(r) // which follows nothing
	require.NoError(t, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return a.StatusCode, a.Header, string(b)
}

// TestOnlyThisMachineIsServed: addresses that others reach are wrong use.
func TestOnlyThisMachineIsServed(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.168.1.1:0", "example.org:80", "127.0.0.1.example.org:80", "127.0.0.1", "",
		"localhost.example.org:0"} {
		l, err := server.Listen(addr)
		if !assert.ErrorAs(t, err, new(qwb.UsageError), addr) {
			l.Close()
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "127.8.9.1:0", "localhost:0"} {
		l, err := server.Listen(addr)
		if err == nil {
			assert.True(t, strings.HasPrefix(l.Addr().String(), "127."), addr)
			l.Close()
		} else {
			assert.NotErrorIs(t, err, qwb.UsageError{}, addr) // a system may have one address of its own only
		}
	}
}

// TestWhoAsks: without the token, for another host, from another page: 403, whatever is asked for. A forwarded port is fine.
func TestWhoAsks(t *testing.T) {
	s := serve(t)
	port := s.base[strings.LastIndexByte(s.base, ':'):]
	for _, c := range []struct {
		what    string
		headers []string
		page    int // status of the page, which has no secrets
		api     int
	}{
		{"the page itself", nil, 200, 200},
		{"no token", []string{"X-Qwb-Token", ""}, 200, 403},
		{"another token", []string{"X-Qwb-Token", server.NewToken()}, 200, 403},
		{"a part of the token", []string{"X-Qwb-Token", s.Token[:len(s.Token)-1]}, 200, 403},
		{"another host", []string{"Host", "evil.example"}, 403, 403},
		{"a name that was made to point here", []string{"Host", "rebound.example" + port, "Origin", "http://rebound.example" + port}, 403, 403},
		{"a name that looks like this machine", []string{"Host", "127.0.0.1.evil.example" + port}, 403, 403},
		{"no host", []string{"Host", ":80"}, 403, 403},
		{"the other name of this machine", []string{"Host", "localhost" + port}, 200, 200},
		{"a forwarded port", []string{"Host", "localhost:9999", "Origin", "http://localhost:9999"}, 200, 200},
		{"its own origin", []string{"Origin", s.base}, 200, 200},
		{"a page of another server here", []string{"Origin", "http://127.0.0.1:1"}, 403, 403},
		{"a page elsewhere", []string{"Origin", "https://evil.example"}, 403, 403},
		{"a file", []string{"Origin", "null"}, 403, 403},
		{"a page elsewhere, by what the browser says", []string{"Sec-Fetch-Site", "cross-site"}, 403, 403},
		{"a page of another port, by what the browser says", []string{"Sec-Fetch-Site", "same-site"}, 403, 403},
		{"a click in the address bar", []string{"Sec-Fetch-Site", "none"}, 200, 200},
	} {
		status, _, _ := s.ask(t, http.MethodGet, "/", "", c.headers...)
		assert.Equal(t, c.page, status, c.what)
		status, _, _ = s.ask(t, http.MethodGet, "/page/app.js", "", c.headers...)
		assert.Equal(t, c.page, status, c.what)
		for _, path := range []string{"/api/echo", "/api/upload?name=a", "/api/start"} {
			if status, _, _ = s.ask(t, http.MethodPost, path, "{}", c.headers...); path != "/api/upload?name=a" || c.api != 200 {
				assert.Equal(t, c.api, status, "%s: %s", c.what, path)
			}
		}
		for _, path := range []string{"/api/events", "/api/download?file=x", "/api/no-such-method"} {
			if c.api == 403 {
				status, _, _ = s.ask(t, http.MethodGet, path, "", c.headers...)
				assert.Equal(t, 403, status, "%s: %s", c.what, path)
			}
		}
	}
	status, _, body := s.ask(t, http.MethodGet, "/?token="+s.Token, "", "X-Qwb-Token", "")
	assert.Equal(t, 200, status)
	assert.NotContains(t, body, s.Token)
	assert.NotEqual(t, server.NewToken(), server.NewToken())
	assert.GreaterOrEqual(t, len(s.Token), 26) // of 32 letters: 130 bits
}

// TestWhatThePageMayDo: every answer forbids what it does not need.
func TestWhatThePageMayDo(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/", "/page/app.js", "/page/nothing.js", "/api/echo", "/api/nothing"} {
		_, h, _ := s.ask(t, http.MethodGet, path, "")
		policy := h.Get("Content-Security-Policy")
		assert.True(t, strings.HasPrefix(policy, "default-src 'self';"), policy)
		assert.Contains(t, policy, "frame-ancestors 'none'")
		assert.NotContains(t, policy, "unsafe")
		assert.NotContains(t, policy, "script-src") // that of default-src
		assert.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
		assert.Equal(t, "DENY", h.Get("X-Frame-Options"))
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		assert.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
		assert.Equal(t, "no-store", h.Get("Cache-Control"))
		assert.Empty(t, h.Get("Access-Control-Allow-Origin"))
	}
	status, h, body := s.ask(t, http.MethodGet, "/page/views/a.js", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, "text/javascript; charset=utf-8", h.Get("Content-Type"))
	assert.Equal(t, "y", body)
	for _, path := range []string{"/page/page.go", "/page/../server.go", "/page/%2e%2e/x.js", "/page/", "/page/views", "/etc/passwd",
		"//evil.example/x.js"} {
		status, _, _ := s.ask(t, http.MethodGet, path, "")
		assert.Equal(t, 404, status, path)
	}
	status, _, _ = s.ask(t, http.MethodPost, "/", "")
	assert.Equal(t, 405, status)
}

// TestCalls: methods by name, JSON in and out, faults as qwb.Describe has them; only POST changes, with the revision; a form cannot.
func TestCalls(t *testing.T) {
	s := serve(t)
	revision := s.Bench.Revision()
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		want               string
	}{
		{"POST", "/api/echo", `{"params":{"a":"<b>"}}`, nil, 200, `{"a":"\u003cb\u003e"}`},
		{"GET", "/api/echo?p=%7B%22a%22%3A1%7D", "", nil, 200, `{"a":1}`},
		{"POST", "/api/change", `{"revision":"` + revision + `"}`, nil, 200, `{"done":true}`},
		{"POST", "/api/change", `{"revision":"of yesterday"}`, nil, 409, `"kind":"changed"`},
		{"GET", "/api/change", "", nil, 405, `only by POST`},
		{"GET", "/api/start", "", nil, 405, `only by POST`},
		{"PUT", "/api/echo", "{}", nil, 405, `only GET and POST`},
		{"POST", "/api/echo", `{"params":{}}`, []string{"Content-Type", "text/plain"}, 400, `not JSON`},
		{"POST", "/api/echo", `params=1`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 400, `not JSON`},
		{"POST", "/api/echo", `{"parms":{}}`, nil, 400, `parms`},
		{"POST", "/api/echo", `{`, nil, 400, `"kind":"usage"`},
		{"POST", "/api/echo", `{"params":"` + strings.Repeat("a", 9<<20) + `"}`, nil, 400, `too large`},
		{"POST", "/api/nothing", "{}", nil, 404, `there is no method`},
		{"POST", "/api/", "{}", nil, 404, `there is no method`},
		{"POST", "/api/fail", "{}", nil, 422, `"stage":"infer","node":"conv1","op":"Conv"`},
		{"POST", "/api/bug", "{}", nil, 500, `bug in qwb: index out of range`},
	} {
		status, _, body := s.ask(t, c.method, c.path, c.body, c.headers...)
		what := c.method + " " + c.path + " " + c.body[:min(len(c.body), 40)]
		assert.Equal(t, c.status, status, what)
		assert.Contains(t, body, c.want, what)
		assert.True(t, json.Valid([]byte(body)), what)
	}
	assert.Contains(t, s.log.String(), "goroutine ")
}

// TestEvents arrive as they happen, one line of JSON each.
func TestEvents(t *testing.T) {
	s := serve(t)
	r, err := http.NewRequest(http.MethodGet, s.base+"/api/events", nil)
	require.NoError(t, err)
	r.Header.Set("X-Qwb-Token", s.Token)
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	assert.Equal(t, "text/event-stream", a.Header.Get("Content-Type"))
	line, err := bufio.NewReader(a.Body).ReadString('\n')
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(line, ": "), line) // the answer has begun, though nothing has happened
}

// TestFilesInAndOut: what is sent lies in the first root under its name and comes back; nothing is overwritten or hidden, no name leads
// out.
func TestFilesInAndOut(t *testing.T) {
	s := serve(t)
	send := func(name, content string) (int, string) {
		status, _, body := s.ask(t, http.MethodPost, "/api/upload?name="+name, content, "Content-Type", "application/octet-stream")
		return status, body
	}
	status, body := send("images/cat.png", "cat")
	require.Equal(t, 200, status, body)
	var sent struct{ Path, SHA256 string }
	require.NoError(t, json.Unmarshal([]byte(body), &sent))
	assert.Equal(t, filepath.ToSlash(filepath.Join(s.folder, "images", "cat.png")), sent.Path)
	b, err := os.ReadFile(sent.Path)
	require.NoError(t, err)
	assert.Equal(t, "cat", string(b))

	status, h, body := s.ask(t, http.MethodGet, "/api/download?file="+sent.Path, "")
	assert.Equal(t, 200, status)
	assert.Equal(t, "cat", body)
	assert.Equal(t, "attachment", h.Get("Content-Disposition"))
	assert.Equal(t, "application/octet-stream", h.Get("Content-Type"))

	status, _ = send("images/cat.png", "cat")
	assert.Equal(t, 200, status, "the same once more")
	status, body = send("images/cat.png", "dog")
	assert.Equal(t, 409, status)
	assert.Contains(t, body, "another file of this name")
	for _, name := range []string{"", ".", "..", "../a", "a/../../b", "/etc/a", "a//b", ".hidden", "a/.ssh/b", "C:a", "a%5Cb",
		"a%00b", "images"} {
		status, _ = send(name, "x")
		assert.GreaterOrEqual(t, status, 400, name)
	}
	for _, name := range []string{"/etc/passwd", s.folder + "/../x", s.folder, s.folder + "/nothing", ""} {
		status, _, _ = s.ask(t, http.MethodGet, "/api/download?file="+name, "")
		assert.GreaterOrEqual(t, status, 400, name)
	}
	var left []string
	require.NoError(t, filepath.WalkDir(s.folder, func(p string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			left = append(left, p)
		}
		return err
	}))
	assert.Equal(t, []string{filepath.Join(s.folder, "images", "cat.png")}, left)
}

// TestAPageThatReadsNoLongerLosesItsStream: a tab that was stopped holds no events, and no connection, for ever.
func TestAPageThatReadsNoLongerLosesItsStream(t *testing.T) {
	before := server.SetStuck(100 * time.Millisecond)
	defer server.SetStuck(before)
	s := serve(t)
	start := bench[slices.IndexFunc(bench, func(m workbench.Method) bool { return m.Name == "start" })]
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "GET /api/events HTTP/1.1\r\nHost: %s\r\nX-Qwb-Token: %s\r\n\r\n", strings.TrimPrefix(s.base, "http://"), s.Token)
	require.NoError(t, err)
	head := make([]byte, 15)
	_, err = io.ReadFull(c, head)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 OK", string(head))
	for i := range 20 { // more than the connection holds
		params, err := json.Marshal(map[string]any{"kind": "open",
			"options": map[string]string{"file": fmt.Sprint(i) + strings.Repeat("x", 1<<20)}})
		require.NoError(t, err)
		_, err = start.Do(s.Bench, t.Context(), params)
		require.NoError(t, err)
	}
	time.Sleep(time.Second)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err = io.Copy(io.Discard, c)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the stream goes on")
}
