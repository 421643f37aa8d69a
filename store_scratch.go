package qwb

import (
	"bytes"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
)

// scratch is a store that reads what another one has and keeps what is written to itself. It is for work whose files are to be there all
// together in the end, or not at all. Files that the system's own path is asked of go past it as long as they are not in it.
type scratch struct {
	base  Store
	mu    sync.RWMutex
	files map[string][]byte // by cleaned name
}

// file is what was written under a name, nil for nothing.
func (s *scratch) file(name string) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.files[filepath.Clean(name)]
}

// names lists what was written, sorted.
func (s *scratch) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []string
	for name := range s.files {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (s *scratch) Open(name string) (fs.File, error) {
	if b := s.file(name); b != nil {
		return &memoryFile{bytes.NewReader(b), memoryInfo{filepath.Base(name), int64(len(b)), false, filepath.Clean(name)}}, nil
	}
	return s.base.Open(name)
}

func (s *scratch) Path(name string) (string, bool) {
	if s.file(name) != nil {
		return "", false
	}
	return s.base.Path(name)
}

func (s *scratch) Stage() Stage {
	return &scratchStage{store: s, files: map[string][]byte{}, expect: map[string]string{}}
}

type scratchStage struct {
	store  *scratch
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
			b, err = fs.ReadFile(s.store.base, name)
		}
		if !expected(b, err, sum) {
			return &ChangedError{name}
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
