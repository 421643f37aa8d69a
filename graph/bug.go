package graph

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Bug is a panic as an error: what was asked for fails, and the program, which may serve others, goes on.
type Bug struct {
	Value any    // what recover returned
	Stack []byte // of the goroutine that panicked
}

// Error says in one line what happened. A fault at an address is no bug: a model is read where it lies in its file.
func (b *Bug) Error() string {
	if fault, ok := b.Value.(interface{ Addr() uintptr }); ok {
		return fmt.Sprintf("a file was truncated or became unreadable while qwb was reading it (fault at %#x)", fault.Addr())
	}
	return fmt.Sprintf("bug in qwb: %v", b.Value)
}

// Recovered returns what recover returned as an error, nil for nil. A Bug that one goroutine hands to another stays as it is.
func Recovered(value any) error {
	switch v := value.(type) {
	case nil:
		return nil
	case *Bug:
		return v
	}
	return &Bug{Value: value, Stack: debug.Stack()}
}

// Try calls f. If f panics, that is the error: for goroutines, whose panics nobody else can recover.
func Try(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if bug := Recovered(recover()); bug != nil {
			err = bug
		}
	}()
	return f()
}

// Group is a number of goroutines that work for the one that waits: a panic of one of them is a panic of Wait, where it can be recovered.
// The zero value is ready.
type Group struct {
	wait sync.WaitGroup
	bug  atomic.Pointer[error]
}

// Go calls f on a goroutine of its own.
func (g *Group) Go(f func()) {
	g.wait.Go(func() {
		err := Try(func() error {
			f()
			return nil
		})
		if err != nil {
			g.bug.Store(&err)
		}
	})
}

// Wait returns when all have ended. It panics with what one of them panicked with.
func (g *Group) Wait() {
	g.wait.Wait()
	if err := g.bug.Load(); err != nil {
		panic(*err)
	}
}
