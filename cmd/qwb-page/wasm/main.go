//go:build js && wasm

// Command wasm is the workbench inside a page: a worker of the browser runs it, with files in memory. It takes messages of
// reports/page/worker.js in place of requests, and knows nothing but the workbench's methods by name.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall/js"
	"time"

	"qwb"
	"qwb/internal/demo"
	"qwb/internal/workbench"
)

// version is the release that stands in exported files: that of cmd/qwb.
var version = "0.1.0"

func main() {
	catalog := qwb.Standard(version)
	catalog.Now, catalog.PeakMemory = time.Now, peak
	s := &session{answer: js.Global().Get("qwbAnswer"), store: &qwb.Memory{}, outside: map[string][]byte{}}
	s.breathe.prepare()
	// Memory of a page grows and never shrinks: collect garbage before it does.
	debug.SetGCPercent(50)
	s.bench = workbench.New(workbench.Options{Project: qwb.Project{Store: s.store, Catalog: catalog}, Threads: 1, Pause: s.breathe.pause})
	js.Global().Set("qwbCall", js.FuncOf(s.call))
	js.Global().Set("qwbWrite", js.FuncOf(s.write))
	js.Global().Set("qwbRead", js.FuncOf(s.read))
	events := s.bench.Events(context.Background())
	js.Global().Call("qwbReady")
	for e := range events {
		s.reply("event", e, nil)
	}
}

// session is the bench of one page.
type session struct {
	bench   *workbench.Bench
	store   *qwb.Memory
	answer  js.Value // a function of the number of a call, or "event", its result as JSON, and the fault as JSON
	breathe breathe
	outside map[string][]byte // files as they are outside of the page too: as they came in, or were saved last
}

// fault is what went wrong, as a server has it.
type fault struct {
	qwb.Fault
	Status   int    `json:"status"`
	Revision string `json:"revision,omitempty"` // of the plan, where the one that was seen is stale
}

// call takes the number of a call, a method, its parameters as JSON, and the revision that the page has seen.
func (s *session) call(_ js.Value, a []js.Value) any {
	id, method, params, revision := a[0], a[1].String(), json.RawMessage(a[2].String()), a[3].String()
	go func() {
		defer func() {
			if p := recover(); p != nil {
				s.reply(id, nil, errors.New("a bug of qwb: "+string(debug.Stack())))
			}
		}()
		var r any
		var err error
		switch method {
		case "demo":
			r, err = s.demo()
		case "unsaved":
			r = s.unsaved()
		default:
			r, err = s.bench.Call(context.Background(), method, params, revision)
		}
		s.reply(id, r, err)
	}()
	return nil
}

func (s *session) reply(id any, result any, err error) {
	var text []byte
	if err == nil {
		if text, err = json.Marshal(result); err == nil {
			s.answer.Invoke(id, string(text), js.Null())
			return
		}
	}
	f := fault{Fault: qwb.Describe(err), Status: 400}
	var stale *workbench.StaleError
	if errors.As(err, &stale) {
		f.Status, f.Revision = 409, stale.Revision
	}
	text, _ = json.Marshal(f) // strings and numbers
	s.answer.Invoke(id, js.Null(), string(text))
}

// write keeps a file: its name and its bytes.
func (s *session) write(_ js.Value, a []js.Value) any {
	b := make([]byte, a[1].Length())
	js.CopyBytesToGo(b, a[1])
	s.put(a[0].String(), b)
	return nil
}

func (s *session) put(name string, content []byte) {
	s.store.Write(name, content)
	s.outside[name] = content
}

// unsaved are the files that are lost with the page: those that it wrote, as they are now. What a run only keeps for the next one is not
// counted.
func (s *session) unsaved() []string {
	names := []string{}
	for _, name := range s.store.Names() {
		now, _ := s.store.Read(name)
		kept, ok := s.outside[name]
		if ok && bytes.Equal(now, kept) || strings.HasSuffix(name, ".bak") || strings.HasSuffix(name, ".report") ||
			strings.HasSuffix(name, ".tuning") {
			continue
		}
		names = append(names, name)
	}
	return names
}

// read returns the bytes of a file, or null.
func (s *session) read(_ js.Value, a []js.Value) any {
	b, ok := s.store.Read(a[0].String())
	if !ok {
		return nil
	}
	s.outside[a[0].String()] = b // whoever asks saves it
	array := js.Global().Get("Uint8Array").New(len(b))
	js.CopyBytesToJS(array, b)
	return array
}

// demo writes the files that `qwb demo` writes before it begins, and says where they are.
func (s *session) demo() (any, error) {
	err := demo.Files(context.Background(), demo.DefaultSeed, func(name string, content []byte) error {
		s.put(demo.Folder+"/"+name, content)
		s.breathe.pause()
		return nil
	})
	return map[string]string{"model": demo.Folder + "/" + demo.ModelName, "platform": "trt_int8",
		"data": demo.Folder + "/" + demo.CalibrationFolder,
		"eval": demo.Folder + "/" + demo.EvaluationFolder, "labels": demo.Folder + "/" + demo.Labels}, err
}

func peak() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}

// breathe lets the worker take messages while Go computes: there is one thread for both, and no other way to hear that a job is to stop.
type breathe struct {
	port    js.Value
	resumed chan struct{}
	last    time.Time
}

// rarely is how long a message may have to wait. A pause takes a hundredth of it.
const rarely = 20 * time.Millisecond

// prepare makes a channel of the browser: a message to oneself comes behind those that wait already, and sooner than any timer.
func (b *breathe) prepare() {
	b.resumed = make(chan struct{})
	channel := js.Global().Get("MessageChannel").New()
	b.port = channel.Get("port2")
	channel.Get("port1").Set("onmessage", js.FuncOf(func(js.Value, []js.Value) any {
		go func() { b.resumed <- struct{}{} }()
		return nil
	}))
}

func (b *breathe) pause() {
	if time.Since(b.last) < rarely {
		return
	}
	b.port.Call("postMessage", js.Null())
	<-b.resumed
	b.last = time.Now()
}
