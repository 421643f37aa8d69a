package store

import (
	"context"
	"io/fs"

	"qwb/internal/file"
)

// In is a store that waits for no file once ctx is over: the file system of another machine may never answer.
func In(ctx context.Context, s Store) Store {
	if ctx.Done() == nil {
		return s
	}
	return bound{s, ctx}
}

type bound struct {
	Store
	ctx context.Context
}

func (b bound) Open(name string) (fs.File, error) {
	return file.Await(b.ctx, func() (fs.File, error) { return b.Store.Open(name) }, func(f fs.File) { _ = f.Close() })
}

// Stat describes a file.
func (b bound) Stat(name string) (fs.FileInfo, error) {
	return file.Await(b.ctx, func() (fs.FileInfo, error) { return fs.Stat(b.Store, name) }, nil)
}
