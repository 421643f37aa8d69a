package onnx

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"qwb/graph"
	"qwb/internal/file"
)

// SaveOptions say how a model is saved. The zero value is usable.
type SaveOptions struct {
	// ExternalAbove is the size in bytes from which a changed model is split: tensors of 1 KiB or more then go to a file
	// NAME.data beside it. 0 means 1.8e9, which leaves room below the 2 GiB that protobuf readers accept.
	ExternalAbove int64
}

const defaultExternalAbove = 1_800_000_000

// Write writes the model to w in one piece. A model that says what its file says is written byte for byte as it was read,
// unless tensors lie in other files: those are taken in. What is larger than 2 GiB in one piece is an error.
func (m *Model) Write(w io.Writer) error {
	h, old, err := m.origin()
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	if old != nil && len(m.src.locations) == 0 && m.unchanged(h, old) {
		_, err = w.Write(m.src.data)
	} else {
		err = m.writeInline(w, h, old)
	}
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

func (m *Model) writeInline(w io.Writer, h *header, old *original) error {
	r, err := m.encode(h, old, nil)
	if err != nil {
		return err
	}
	if r.size > maxMessage {
		return fmt.Errorf("the model takes %d bytes in one piece, and protobuf readers accept %d", r.size, maxMessage)
	}
	_, err = r.WriteTo(w)
	return err
}

func (m *Model) origin() (*header, *original, error) {
	if m.Graph == nil {
		return nil, nil, errors.New("the model has no graph")
	}
	if m.src == nil {
		return nil, nil, nil
	}
	return m.src.reread()
}

// Save writes the model to path. A model that says what its file says is written byte for byte as it was read, with copies
// of the files it refers to beside it; any other is written as SaveOptions say, unchanged parts byte for byte and the rest
// in one canonical way: the same model gives the same bytes. IRVersion is raised where the graph needs it.
//
// Everything is written under other names first, flushed to the disk and renamed when complete; after an error nothing is
// left behind and what was there before is untouched. A file beside path that the model refers to and that has other
// content is such an error.
func (m *Model) Save(path string, o SaveOptions) error {
	err := m.save(path, o)
	if e, ok := err.(*file.Error); ok {
		path, err = e.Path, e.Err
	}
	if err != nil {
		return &graph.FileError{Stage: "save", File: path, Err: err}
	}
	return nil
}

// WriteFiles is Save for a caller that has files of its own: create makes the file called name, and, where the model is split, the one of
// its tensors, NAME.data. The model is always written anew, in the canonical way.
func (m *Model) WriteFiles(name string, o SaveOptions, create func(name string) (io.WriteCloser, error)) error {
	h, old, err := m.origin()
	if err == nil {
		err = m.split(name, h, old, o, func(name string, c io.WriterTo) error {
			w, err := create(name)
			if err != nil {
				return err
			}
			return errors.Join(content(c)(w), w.Close())
		})
	}
	if err != nil {
		return &graph.FileError{Stage: "save", File: name, Err: err}
	}
	return nil
}

func (m *Model) save(path string, o SaveOptions) error {
	h, old, err := m.origin()
	if err != nil {
		return err
	}
	var files file.Stage
	defer files.Discard()
	if old != nil && m.unchanged(h, old) {
		for _, loc := range m.src.locations {
			if err := m.src.copyBeside(&files, path, loc); err != nil {
				return fmt.Errorf("external data at %q: %w", loc, err)
			}
		}
		if err := files.Add(path, content(bytes.NewReader(m.src.data))); err != nil {
			return err
		}
		return files.Commit(nil)
	}
	err = m.split(filepath.Base(path), h, old, o, func(name string, c io.WriterTo) error {
		return files.Add(filepath.Join(filepath.Dir(path), name), content(c))
	})
	if err != nil {
		return err
	}
	return files.Commit(nil)
}

// content writes what c has to a file.
func content(c io.WriterTo) func(io.Writer) error {
	return func(f io.Writer) error {
		w := bufio.NewWriterSize(f, 1<<16)
		_, err := c.WriteTo(w)
		if err == nil {
			err = w.Flush()
		}
		return err
	}
}

// split encodes a model in one file, or, where that is larger than o says, in two, of which the one with the tensors comes first.
func (m *Model) split(name string, h *header, old *original, o SaveOptions, add func(name string, content io.WriterTo) error) error {
	r, err := m.encode(h, old, nil)
	if err != nil {
		return err
	}
	limit := o.ExternalAbove
	if limit <= 0 {
		limit = defaultExternalAbove
	}
	if r.size > limit {
		sink := &dataFile{location: name + ".data", graph: m.Graph}
		if r, err = m.encode(h, old, sink); err != nil {
			return err
		}
		if sink.size > 0 {
			if err := add(sink.location, sink); err != nil {
				return err
			}
		}
	}
	if r.size > maxMessage {
		return fmt.Errorf("%d bytes cannot be moved to external data, and protobuf readers accept %d", r.size, maxMessage)
	}
	return add(name, r)
}

// copyBeside stages a copy of an external file for the model at path, unless it is there already.
func (s *source) copyBeside(files *file.Stage, path, location string) error {
	data, err := s.ext.External(location)
	if err != nil {
		return err
	}
	dst := filepath.Join(filepath.Dir(path), filepath.FromSlash(location))
	switch same, err := holds(dst, data); {
	case errors.Is(err, os.ErrNotExist):
		return files.Add(dst, content(bytes.NewReader(data)))
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("%s exists and has other content", dst)
	}
	return nil
}

// holds reports whether the file at path has exactly this content.
func holds(path string, data []byte) (bool, error) {
	f, err := file.OpenRead(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(data)) {
		return false, err
	}
	buf := make([]byte, 1<<20)
	for len(data) > 0 {
		n, err := io.ReadFull(f, buf[:min(len(buf), len(data))])
		if err != nil || !bytes.Equal(buf[:n], data[:n]) {
			return false, err
		}
		data = data[n:]
	}
	return true, nil
}
