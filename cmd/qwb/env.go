package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// env is what a command may touch beside its options: where results and messages go.
type env struct {
	stdout, stderr io.Writer
	verbose        bool
}

// warn prints one warning line to standard error.
func (e *env) warn(format string, args ...any) {
	fmt.Fprintf(e.stderr, "warning: "+format+"\n", args...)
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

// printJSON writes v to standard output as one indented JSON object.
func (e *env) printJSON(v any) error {
	enc := json.NewEncoder(e.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// terminal reports whether standard error is a terminal, the only place for progress bars.
func (e *env) terminal() bool {
	f, ok := e.stderr.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows how far a long piece of work is: set is called with the number of items done (from any goroutine), finish
// when it ends. Without a terminal both do nothing. A total below 1 means unknown.
func (e *env) progress(what string, total int) (set func(done int), finish func()) {
	if !e.terminal() {
		return func(int) {}, func() {}
	}
	p := mpb.New(mpb.WithOutput(e.stderr), mpb.WithWidth(40), mpb.WithRefreshRate(120*time.Millisecond))
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
