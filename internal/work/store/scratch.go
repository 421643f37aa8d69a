package store

import (
	"bytes"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"qwb/internal/work/fault"
)

// Scratch is a store that reads what another one has and keeps what is written to itself. It is for work whose files are to be there all
// together in the end, or not at all. Files that the system's own path is asked of go past it as long as they are not in it.
type Scratch struct {
	Base  Store
	mu    sync.RWMutex
	files map[string][]byte // by cleaned name
}

// keeps reports whether what is written to a store stays in it, though its base has a path for the name.
func keeps(s Store) bool {
	if b, ok := s.(bound); ok {
		return keeps(b.Store)
	}
	_, ok := s.(*Scratch)
	return ok
}

// File is what was written under a name, nil for nothing.
func (s *Scratch) File(name string) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.files[filepath.Clean(name)]
}

// Names lists what was written, sorted.
func (s *Scratch) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []string
	for name := range s.files {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (s *Scratch) Open(name string) (fs.File, error) {
	if b := s.File(name); b != nil {
		return &memoryFile{bytes.NewReader(b), memoryInfo{filepath.Base(name), int64(len(b)), false, filepath.Clean(name)}}, nil
	}
	return s.Base.Open(name)
}

func (s *Scratch) Path(name string) (string, bool) {
	if s.File(name) != nil {
		return "", false
	}
	return s.Base.Path(name)
}

func (s *Scratch) Stage() Stage {
	return &scratchStage{store: s, files: map[string][]byte{}, expect: map[string]string{}}
}

type scratchStage struct {
	store  *Scratch
	files  map[string][]byte
	expect map[string]string
}

func (s *scratchStage) Add(name string, write func(io.Writer) error) error {
	b := bytes.NewBuffer([]byte{}) // nil would mean that there is no file
	if err := write(b); err != nil {
		return err
	}
	s.files[filepath.Clean(name)] = b.Bytes()
	return nil
}

func (s *scratchStage) Expect(name, sum string) { s.expect[name] = sum }

func (s *scratchStage) Commit() error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for name, sum := range s.expect {
		b, err := s.store.files[filepath.Clean(name)], error(nil)
		if b == nil {
			b, err = fs.ReadFile(s.store.Base, name)
		}
		if !expected(b, err, sum) {
			return &fault.ChangedError{Name: name}
		}
	}
	if s.store.files == nil {
		s.store.files = map[string][]byte{}
	}
	for name, b := range s.files {
		s.store.files[name] = b
	}
	s.Discard()
	return nil
}

func (s *scratchStage) Discard() { s.files = map[string][]byte{} }
