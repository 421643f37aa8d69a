// Package server serves a workbench to browsers of this machine: the page and its modules, the methods of the bench as requests with JSON,
// its events as a stream, files in and out. Who may ask is decided here, and nothing else is:
//
//   - only this machine: another address than a loopback one is refused, and so is a request that names another host (a page elsewhere can
//     make a name of its own point here) or comes from another origin;
//   - only who has the token, which is new at every start;
//   - only POST changes something, with the revision of the plan that the page has seen;
//   - only files in the roots (Roots).
//
// Unstable: it may change without notice.
package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"qwb"
	"qwb/internal/workbench"
)

// Server answers the requests of one bench.
type Server struct {
	Bench *workbench.Bench
	Roots *Roots
	// Page has the modules and the style of the page, and index.html, the page itself.
	Page fs.FS
	// Log hears what is wrong with qwb itself; nil: nobody.
	Log io.Writer
	// Token is what a request has to bring along.
	Token string
}

// NewToken makes a token that nobody can guess.
func NewToken() string { return rand.Text() }

// Listen waits for connections at an address of this machine.
func Listen(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, qwb.Usagef("--addr %s: not an address; give for example 127.0.0.1:8080, or 127.0.0.1:0 for any free port", addr)
	}
	if !loopback(host) {
		return nil, qwb.Usagef("--addr %s: qwb serve is for this machine only: 127.0.0.1, ::1 or localhost; "+
			"to reach it from another one forward a port (ssh -L)", addr)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil && strings.Trim(port, "0123456789") == "" {
		return nil, qwb.Usagef("--addr %s: the port is a number up to 65535, not %s", addr, port)
	}
	return net.Listen("tcp", net.JoinHostPort(host, port))
}

// loopback reports whether a host is this machine, by a name that nobody else can point elsewhere.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// URL is where the page is, with the token.
func (s *Server) URL(l net.Listener) string {
	return "http://" + l.Addr().String() + "/?token=" + url.QueryEscape(s.Token)
}

// patience is how long answers that are under way have when the server ends.
const patience = 2 * time.Second

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	faults := s.Log
	if faults == nil {
		faults = io.Discard
	}
	h := &http.Server{Handler: s, ConnContext: remember, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: log.New(faults, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(&connections{Listener: l}) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	if h.Shutdown(late) != nil {
		_ = h.Close() // nothing is lost by it: answers to pages
	}
	<-ended
	return nil
}

// policy of what the page may do: its own modules and style, nothing inline, nothing from elsewhere, in no frame.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, h := range [][2]string{
		{"Content-Security-Policy", policy},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Referrer-Policy", "no-referrer"},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
		{"Cache-Control", "no-store"},
	} {
		w.Header().Set(h[0], h[1])
	}
	if why := foreign(r); why != "" {
		unheard(w)
		refuse(w, http.StatusForbidden, why)
		return
	}
	name, isCall := strings.CutPrefix(r.URL.Path, "/api/")
	switch {
	case isCall && subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Qwb-Token")), []byte(s.Token)) != 1:
		unheard(w)
		refuse(w, http.StatusForbidden, "the token is missing or of another start of qwb serve: open the address that it printed")
	case isCall:
		know(r)
		s.call(w, r, name)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		unheard(w)
		refuse(w, http.StatusMethodNotAllowed, "only GET")
	case r.URL.Path == "/":
		s.file(w, "index.html")
	default:
		name, _ := strings.CutPrefix(r.URL.Path, "/page/")
		s.file(w, name)
	}
}

// foreign says why a request is not one of this page. Host is what the browser believes to be talking to: a name that somebody else made
// point here is refused, while any port is taken, so that a forwarded one works. Origin and Sec-Fetch-Site say which page asks.
func foreign(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	if !loopback(host) {
		return "this is not the host that was asked for"
	}
	for _, origin := range r.Header["Origin"] {
		if origin != "http://"+r.Host {
			return "the request comes from another page"
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return ""
	}
	return "the request comes from another page"
}

// types of the files of the page. Others are not served.
var types = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func (s *Server) file(w http.ResponseWriter, name string) {
	kind := types[path.Ext(name)]
	b, err := fs.ReadFile(s.Page, name)
	if kind == "" || err != nil {
		refuse(w, http.StatusNotFound, "there is no such page")
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b) // who has gone needs no answer
}

// fault is an error as the page gets it.
type fault struct {
	Error    qwb.Fault `json:"error"`
	Revision string    `json:"revision,omitempty"` // of the plan as it is, where another was seen
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, fault{Error: qwb.Fault{Kind: qwb.KindUsage, Message: why}})
}

// failed answers with an error.
func failed(w http.ResponseWriter, err error) {
	f, status := fault{Error: qwb.Describe(err)}, http.StatusUnprocessableEntity
	var stale *workbench.StaleError
	switch {
	case errors.As(err, &stale):
		f.Error.Kind, f.Revision, status = qwb.KindChanged, stale.Revision, http.StatusConflict
	case f.Error.Kind == qwb.KindChanged:
		status = http.StatusConflict
	case f.Error.Kind == qwb.KindUsage:
		status = http.StatusBadRequest
	case errors.As(err, new(*OutsideError)):
		status = http.StatusForbidden
	case errors.Is(err, errThere):
		status = http.StatusConflict
	}
	answer(w, status, f)
}
