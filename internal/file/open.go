package file

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// OpenRead opens a regular file or a folder for reading: it is how every file is opened that somebody names. Anything else is refused,
// since a pipe or a device could wait for its other end for ever; so nothing waits in here but a file system that does not answer (Await).
func OpenRead(path string) (*os.File, error) {
	refused := func(err error) (*os.File, error) { return nil, &fs.PathError{Op: "open", Path: path, Err: err} }
	info, err := os.Stat(path)
	if err != nil {
		return refused(Plain(err))
	}
	if err := readable(info); err != nil {
		return refused(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|withoutWaiting, 0) // a pipe may have taken the name meanwhile
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = readable(info)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return refused(Plain(err))
	}
	return f, nil
}

// readable refuses what is neither a file nor a folder.
func readable(info fs.FileInfo) error {
	if info.Mode().IsRegular() || info.IsDir() {
		return nil
	}
	return notRegular(info)
}

// ReadFile reads a whole file that OpenRead opens.
func ReadFile(path string) ([]byte, error) {
	f, err := OpenRead(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func notRegular(info fs.FileInfo) error {
	what := "a device"
	switch m := info.Mode(); {
	case m.IsDir():
		what = "a folder"
	case m&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case m&fs.ModeSocket != 0:
		what = "a socket"
	}
	return fmt.Errorf("not a regular file (%s)", what)
}

// grace is how long Await waits for what f returns when its context is over: who was interrupted may have something to write down.
const grace = time.Second

// Await is what f returns, or the error of ctx where that ends first: the file system of another machine may never answer. f goes on then,
// and late, if it is not nil, is called with what comes of it.
func Await[T any](ctx context.Context, f func() (T, error), late func(T)) (T, error) {
	if ctx.Done() == nil {
		return f()
	}
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		return o.v, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-done:
		return o.v, o.err
	case <-time.After(grace):
	}
	go func() {
		if o := <-done; o.err == nil && late != nil {
			late(o.v)
		}
	}()
	var none T
	return none, ctx.Err()
}

// OpenAppend opens a regular file to write at its end; it is made, with its folders, where it is not there.
func OpenAppend(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(info)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
}
