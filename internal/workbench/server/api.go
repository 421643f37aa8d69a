package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"qwb"
	"qwb/graph"
	"qwb/internal/file"
	"qwb/internal/strictjson"
	"qwb/internal/workbench"
)

// maxCall is how long the text of a request may be. Files come by themselves.
const maxCall = 8 << 20

// beat is how often a stream of events says that it is still there.
const beat = 15 * time.Second

// stuck is how long an event may take to be sent: a page that reads no longer ends its stream, and asks anew when it goes on.
var stuck = 30 * time.Second

// request is the body of a POST.
type request struct {
	Params   json.RawMessage `json:"params"`
	Revision string          `json:"revision"`
}

// call answers a request that has shown the token.
func (s *Server) call(w http.ResponseWriter, r *http.Request, name string) {
	defer s.recovered(w)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // where a file is cut off that is read where it lies
	defer patient(w, r, name == "upload")()
	post := r.Method == http.MethodPost
	if !post && r.Method != http.MethodGet {
		refuse(w, http.StatusMethodNotAllowed, "only GET and POST")
		return
	}
	switch {
	case name == "events" && !post:
		s.events(w, r)
		return
	case name == "download" && !post:
		s.download(w, r.URL.Query().Get("file"))
		return
	case name == "upload" && post:
		s.upload(w, r)
		return
	}
	i := slices.IndexFunc(workbench.Methods, func(m workbench.Method) bool { return m.Name == name })
	if i < 0 {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no method %q", name))
		return
	}
	if !post && !reads(&workbench.Methods[i]) {
		refuse(w, http.StatusMethodNotAllowed, "this changes something: only by POST")
		return
	}
	in, err := s.request(w, r, post)
	if err != nil {
		failed(w, err)
		return
	}
	ctx := r.Context()
	if workbench.Methods[i].Changes {
		ctx = context.WithoutCancel(ctx) // a tab that is closed loses nothing
	}
	result, err := s.Bench.Call(ctx, name, in.Params, in.Revision)
	if err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusOK, result)
}

// reads reports whether a method leaves everything as it is.
func reads(m *workbench.Method) bool {
	return !m.Changes && m.Name != "start" && m.Name != "cancel" && m.Name != "sample-layers"
}

func (s *Server) request(w http.ResponseWriter, r *http.Request, post bool) (in request, err error) {
	if !post {
		in.Params = json.RawMessage(r.URL.Query().Get("p"))
		return in, nil
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" { // which no form can send
		return in, qwb.Usagef("the request is not JSON")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCall))
	if err == nil {
		err = strictjson.Decode("the request", b, &in)
	}
	if err != nil {
		return in, qwb.UsageError{Err: err}
	}
	return in, nil
}

// recovered answers where a method panicked: a bug of qwb, which ends neither the server nor the work of other tabs.
func (s *Server) recovered(w http.ResponseWriter) {
	bug := graph.Recovered(recover())
	if bug == nil {
		return
	}
	if s.Log != nil {
		fmt.Fprintf(s.Log, "%v\n%s", bug, debug.Stack())
	}
	answer(w, http.StatusInternalServerError, fault{Error: qwb.Fault{Kind: qwb.KindFailed, Message: bug.Error()}})
}

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"kind":"failed","message":"the result has no JSON form"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // who has gone needs no answer
}

// events streams what happens, each as one line of JSON.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	heard := s.Bench.Events(r.Context())
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	still := time.NewTicker(beat)
	defer still.Stop()
	for line := ": hello\n\n"; ; {
		late := time.AfterFunc(stuck, func() { _ = out.SetWriteDeadline(time.Unix(1, 0)) }) // long ago: what is being written fails
		_, err := io.WriteString(w, line)
		err = errors.Join(err, out.Flush())
		if late.Stop(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-still.C:
			line = ": still here\n\n"
		case e, ok := <-heard:
			b, err := json.Marshal(e)
			if !ok || err != nil {
				return
			}
			line = "data: " + string(b) + "\n\n"
		}
	}
}

// download sends a file, which the browser never shows.
func (s *Server) download(w http.ResponseWriter, name string) {
	f, err := s.Roots.Open(name)
	if err != nil {
		failed(w, err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		failed(w, errors.Join(err, qwb.Usagef("%s is not a file", name)))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", "attachment")
	w.Header().Set("Content-Length", fmt.Sprint(info.Size()))
	_, _ = io.Copy(w, f) // who has gone needs no answer
}

// uploaded is what became of a file that was sent.
type uploaded struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// upload puts a file into the first root, under its own name or that of a folder which it was dropped with. Nothing is overwritten.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\:\x00") || slices.ContainsFunc(strings.Split(name, "/"), hidden) {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("%q is no name for a file", name))
		return
	}
	if r.ContentLength > maxUpload {
		unheard(w)
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("%s: %d bytes are more than a file may have (%d)", name,
			r.ContentLength, maxUpload))
		return
	}
	sum, err := s.Roots.list[0].add(name, http.MaxBytesReader(w, r.Body, maxUpload))
	if err != nil {
		failed(w, fmt.Errorf("%s: %w", name, err))
		return
	}
	answer(w, http.StatusOK, uploaded{path.Join(filepath.ToSlash(s.Roots.list[0].name), name), sum})
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// rootNames are names in a root. Nothing outside of it is reached, whatever becomes of its links.
type rootNames struct{ *os.Root }

func (n rootNames) Mkdir(path string) error { return n.Root.Mkdir(path, 0o755) }

func (n rootNames) Create(path string) error {
	f, err := n.Root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

// add writes a new file, which has its name only when it is whole. One that is there already with the same content is left as it is. What
// cannot be written leaves no folder behind.
func (o *root) add(name string, content io.Reader) (sum string, err error) {
	together := file.Together{Names: rootNames{o.dir}}
	if err := together.MakeFolder(path.Dir(name)); err != nil {
		return "", together.Undo(err)
	}
	if sum, err = o.place(&together, name, content); err != nil {
		return "", together.Undo(err)
	}
	together.Done()
	return sum, nil
}

func (o *root) place(together *file.Together, name string, content io.Reader) (sum string, err error) {
	o.tidy(path.Dir(name))
	temp := path.Join(path.Dir(name), file.Hidden+NewToken())
	f, err := o.dir.Create(temp)
	if err != nil {
		return "", err
	}
	file.TryLock(f) // it ends with the process: see tidy
	defer func() { _ = o.dir.Remove(temp) }()
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), content)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	sum = hex.EncodeToString(h.Sum(nil))
	err = together.Place(temp, name)
	if !errors.Is(err, fs.ErrExist) {
		return sum, err
	}
	if same, err := o.holds(name, sum); err != nil || !same {
		return "", errors.Join(err, errThere)
	}
	return sum, nil
}

// tidy removes what uploads have left in a folder that ended with the process.
func (o *root) tidy(folder string) {
	d, err := o.dir.Open(folder)
	if err != nil {
		return
	}
	defer d.Close()
	entries, _ := d.ReadDir(-1) // what cannot be listed has none
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), file.Hidden); !ok || len(rest) != len(NewToken()) || !e.Type().IsRegular() {
			continue
		}
		name := path.Join(folder, e.Name())
		if f, err := o.dir.Open(name); err == nil {
			if file.TryLock(f) == file.Held {
				_ = o.dir.Remove(name) // a file too much does no harm
			}
			f.Close()
		}
	}
}

// errThere refuses to overwrite.
var errThere = errors.New("there is another file of this name; rename one of them")

// holds reports whether a file has the content of this hash.
func (o *root) holds(name, sum string) (bool, error) {
	if info, err := o.dir.Stat(name); err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	f, err := o.dir.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)) == sum, err
}
