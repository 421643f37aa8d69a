package store

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"qwb/internal/file"
	"qwb/internal/work/fault"
)

// Memory is a store in memory: for tests, and for programs without files, such as a page in a browser. Names are paths with slashes,
// relative to one root; a leading slash means nothing. The zero value is empty and ready. It may be used from several goroutines.
type Memory struct {
	mu    sync.RWMutex
	files map[string][]byte
}

// Write puts a file into the store, or replaces it. The store keeps content.
func (m *Memory) Write(name string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(memoryName(name), content)
}

func (m *Memory) put(name string, content []byte) {
	if m.files == nil {
		m.files = map[string][]byte{}
	}
	m.files[name] = content
}

// Read returns the content of a file, which must not be changed, and whether there is one.
func (m *Memory) Read(name string) ([]byte, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, ok := m.files[memoryName(name)]
	return b, ok
}

// Names lists the files, sorted.
func (m *Memory) Names() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var names []string
	for name := range m.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func memoryName(name string) string {
	return strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
}

// Path returns false: the operating system knows none of these files.
func (*Memory) Path(string) (string, bool) { return "", false }

// Open opens a file, or a folder, which is there where a file lies below it.
func (m *Memory) Open(name string) (fs.File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	at := memoryName(name)
	if b, ok := m.files[at]; ok {
		return &memoryFile{bytes.NewReader(b), memoryInfo{path.Base(at), int64(len(b)), false, at}}, nil
	}
	below := at + "/"
	if at == "" {
		below = ""
	}
	found := map[string]memoryInfo{}
	for file, b := range m.files {
		rest, ok := strings.CutPrefix(file, below)
		if !ok {
			continue
		}
		first, _, deeper := strings.Cut(rest, "/")
		info := memoryInfo{first, int64(len(b)), deeper, below + first}
		if deeper {
			info.size = 0
		}
		found[first] = info
	}
	if len(found) == 0 && at != "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	dir := &memoryFolder{info: memoryInfo{path.Base("/" + at), 0, true, at}}
	for _, info := range found {
		dir.entries = append(dir.entries, fs.FileInfoToDirEntry(info))
	}
	slices.SortFunc(dir.entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return dir, nil
}

// Stage begins to write files.
func (m *Memory) Stage() Stage { return &memoryStage{store: m, expect: map[string]string{}} }

type memoryStage struct {
	store  *Memory
	names  []string
	files  [][]byte
	expect map[string]string
}

func (s *memoryStage) Add(name string, write func(io.Writer) error) error {
	var b file.Content
	if err := write(&b); err != nil {
		return err
	}
	s.names, s.files = append(s.names, memoryName(name)), append(s.files, b.Bytes())
	return nil
}

func (s *memoryStage) Expect(name, sum string) { s.expect[name] = sum }

func (s *memoryStage) Commit() error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for name, sum := range s.expect {
		var err error
		b, ok := s.store.files[memoryName(name)]
		if !ok {
			err = fs.ErrNotExist
		}
		if !expected(b, err, sum) {
			return &fault.ChangedError{Name: name}
		}
	}
	for i, name := range s.names {
		s.store.put(name, s.files[i])
	}
	s.Discard()
	return nil
}

func (s *memoryStage) Discard() { s.names, s.files = nil, nil }

type memoryInfo struct {
	name   string
	size   int64
	folder bool
	at     string // the whole name: what makes a file the same one
}

func (i memoryInfo) Name() string       { return i.name }
func (i memoryInfo) Size() int64        { return i.size }
func (i memoryInfo) ModTime() time.Time { return time.Time{} }
func (i memoryInfo) IsDir() bool        { return i.folder }
func (i memoryInfo) Sys() any           { return nil }

func (i memoryInfo) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// memoryFile is an open file. It can be read at an offset.
type memoryFile struct {
	*bytes.Reader
	info memoryInfo
}

func (f *memoryFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *memoryFile) Close() error               { return nil }

// memoryFolder is an open folder.
type memoryFolder struct {
	info    memoryInfo
	entries []fs.DirEntry
}

func (f *memoryFolder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *memoryFolder) Close() error               { return nil }

func (f *memoryFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.info.at, Err: fs.ErrInvalid}
}

func (f *memoryFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		all := f.entries
		f.entries = nil
		return all, nil
	}
	if len(f.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.entries))
	some := f.entries[:n]
	f.entries = f.entries[n:]
	return some, nil
}
