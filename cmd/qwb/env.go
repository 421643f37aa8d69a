package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"qwb"
	"qwb/internal/options"
	"qwb/internal/plain"
)

// progressEvery is how often a line says how far the work is where there is no terminal. What is done sooner says nothing.
const progressEvery = 10 * time.Second

// env is what a command may touch beside its options: where results and messages go. Names come from files, so that both are plain.Writers
// where they may be a terminal: nothing in a name acts. JSON and progress bars go past them.
type env struct {
	stdout, stderr io.Writer
	verbose        bool
	timeout        time.Duration // 0: none
	every          time.Duration // between two lines of progress; 0: progressEvery
	ops            []string      // of --op
	operators      []*commandOperator
	tables         map[*cobra.Command]options.Table // what the commands can be told
	offers         *qwb.Catalog
	groups         []helpGroup
	warned         sync.Map // lines
}

// warn prints one warning line to standard error: a warning of samples that are opened several times once.
func (e *env) warn(format string, args ...any) {
	line := fmt.Sprintf("warning: "+format, args...)
	if _, before := e.warned.LoadOrStore(line, true); !before {
		fmt.Fprintln(e.stderr, line)
	}
}

// note prints one line to standard error.
func (e *env) note(format string, args ...any) {
	fmt.Fprintf(e.stderr, format+"\n", args...)
}

// detail prints one line to standard error with -v.
func (e *env) detail(format string, args ...any) {
	if e.verbose {
		e.note(format, args...)
	}
}

// checked reports whether a command has done its work: err is nil, or says that a check did not hold, beside which the result is printed.
func checked(err error) bool { return err == nil || errors.As(err, new(qwb.CheckError)) }

// printJSON writes v to standard output as one indented JSON object.
func (e *env) printJSON(v any) error {
	enc := json.NewEncoder(raw(e.stdout))
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// terminal reports whether standard error is a terminal, the only place for progress bars.
func (e *env) terminal() bool {
	f, ok := raw(e.stderr).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows how far a long piece of work is: set is called with the number of items done (from any goroutine), finish
// when it ends, once or twice. A terminal shows a bar; elsewhere, in the log of a job for one, a line now and then is printed. A total
// below 1 means unknown.
func (e *env) progress(what string, total int) (set func(done int), finish func()) {
	if !e.terminal() {
		return e.progressLines(what, total)
	}
	p := mpb.New(mpb.WithOutput(raw(e.stderr)), mpb.WithWidth(40), mpb.WithRefreshRate(120*time.Millisecond))
	var bar *mpb.Bar
	if total < 1 {
		bar = p.MustAdd(0, nil, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name(what+" "), decor.CurrentNoUnit("%d")))
	} else {
		bar = p.AddBar(int64(total), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(what+" "), decor.CountersNoUnit("%d / %d")),
			mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO)))
	}
	return func(done int) { bar.SetCurrent(int64(done)) }, func() {
		bar.Abort(true)
		p.Wait()
	}
}

// progressLines is progress without a terminal: a line every ten seconds, with the time that is left if that can be told.
func (e *env) progressLines(what string, total int) (set func(done int), finish func()) {
	every := e.every
	if every == 0 {
		every = progressEvery
	}
	var done atomic.Int64
	start, ticker, ended, over := time.Now(), time.NewTicker(every), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				e.note("%s", progressLine(what, int(done.Load()), total, time.Since(start)))
			}
		}
	}()
	finish = sync.OnceFunc(func() {
		ticker.Stop()
		close(ended)
		<-over
	})
	return func(n int) { done.Store(int64(n)) }, finish
}

// progressLine says how far a piece of work is after some time.
func progressLine(what string, done, total int, passed time.Duration) string {
	if total < 1 {
		return fmt.Sprintf("%s: %d after %s", what, done, passed.Round(time.Second))
	}
	line := fmt.Sprintf("%s: %d of %d after %s", what, done, total, passed.Round(time.Second))
	if done > 0 && done < total {
		left := time.Duration(float64(passed) * float64(total-done) / float64(done)) // the product is beyond int64 for 1e9 weights
		line += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	return line
}

// lockedWriter lets several goroutines write lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// raw is what a writer of text writes to in the end.
func raw(w io.Writer) io.Writer {
	switch v := w.(type) {
	case *lockedWriter:
		return raw(v.w)
	case *plain.Writer:
		return raw(v.Unwrap())
	}
	return w
}
