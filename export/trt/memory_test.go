package trt_test

import (
	"bytes"
	"io"
	"io/fs"
	"testing/fstest"
)

// memory is a folder.
type memory map[string]string

func (m memory) Add(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	err := write(&b)
	m[name] = b.String()
	return err
}

func (m memory) Commit() error { return nil }
func (m memory) Discard()      {}

func (m memory) Open(name string) (fs.File, error) {
	files := fstest.MapFS{}
	for k, v := range m {
		files[k] = &fstest.MapFile{Data: []byte(v)}
	}
	return files.Open(name)
}
