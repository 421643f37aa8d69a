package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bounds of what is waited for and taken. Connections are this machine's, but programs of other users can make them too: what has not shown
// the token gets little.
var (
	maxConnections = 64
	bodyPatience   = 30 * time.Second // for the text of a request, and for the next piece of a file
	maxUpload      = int64(32 << 30)  // bytes of one file
)

// connections holds the number of connections down: one too many ends the oldest that has not shown the token.
type connections struct {
	net.Listener
	mu   sync.Mutex
	list []*connection // the oldest first
}

type connection struct {
	net.Conn
	all   *connections
	known bool // it has shown the token
}

func (l *connections) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	own := &connection{Conn: c, all: l}
	l.mu.Lock()
	var oldest *connection
	if l.list = append(l.list, own); len(l.list) > maxConnections {
		oldest = own // where all others are known
		if i := slices.IndexFunc(l.list, func(c *connection) bool { return !c.known }); i >= 0 {
			oldest = l.list[i]
		}
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // nobody is told: it is none of this page's
	}
	return own, nil
}

func (c *connection) Close() error {
	c.all.mu.Lock()
	if i := slices.Index(c.all.list, c); i >= 0 {
		c.all.list = slices.Delete(c.all.list, i, i+1)
	}
	c.all.mu.Unlock()
	return c.Conn.Close()
}

type connectionKey struct{}

// remember lets requests find their connection.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// know says that the connection of a request has shown the token.
func know(r *http.Request) {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
		c.all.mu.Lock()
		c.known = true
		c.all.mu.Unlock()
	}
}

// unheard ends a connection with the answer to its request, whose body nobody waits for.
func unheard(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(past) // where there is none nothing waits
}

// past is long ago: what is waited for fails.
var past = time.Unix(1, 0)

// patient ends the reading of a body that does not come. The time is for all of it, or, if it may take long, for each piece. end has to be
// called when the request is answered: what has not come by then is not waited for.
func patient(w http.ResponseWriter, r *http.Request, pieces bool) (end func()) {
	if r.Body == http.NoBody {
		return func() {}
	}
	give := func() { _ = http.NewResponseController(w).SetReadDeadline(past) }
	b := &body{ReadCloser: r.Body, late: time.AfterFunc(bodyPatience, give), pieces: pieces}
	r.Body = b
	return func() {
		b.late.Stop()
		if !b.ended {
			give()
		}
	}
}

type body struct {
	io.ReadCloser
	late          *time.Timer
	pieces, ended bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && b.pieces {
		b.late.Reset(bodyPatience)
	}
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}
