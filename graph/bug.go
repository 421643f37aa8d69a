package graph

import (
	"fmt"
	"runtime/debug"
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
