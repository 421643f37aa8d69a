package file

import (
	"errors"
	"iter"
	"slices"
	"sync"
	"time"
)

// Maps are mappings that are released together. They may be used from several goroutines; the zero value has none.
type Maps struct {
	mu   sync.RWMutex
	list []*Mapping
	stop func() // ends what gives pages back; nil where nothing does
}

// Add puts mappings to the others.
func (m *Maps) Add(list ...*Mapping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, list...)
}

// Holds reports whether a part of memory lies in a mapped file.
func (m *Maps) Holds(part []byte) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.ContainsFunc(m.list, func(one *Mapping) bool { return one.offset(part) >= 0 })
}

// Forget is Mapping.Forget of the mapping that has the part. Between Trim and Release it looks at the pages of all.
func (m *Maps) Forget(part []byte) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, one := range m.list {
		one.Forget(part)
	}
	if m.stop != nil {
		m.trim()
	}
}

// Spill returns a copy of b that lies in a file of the system's folder for temporary ones. The file has no name, so that it is gone with
// the process, however that ends; the copy may be written to. Where that cannot be, nil is returned.
func (m *Maps) Spill(b []byte) []byte {
	return m.SpillAll(func(yield func([]byte) bool) { yield(b) })
}

// SpillAll is Spill of pieces, one behind the other.
func (m *Maps) SpillAll(pieces iter.Seq[[]byte]) []byte {
	one, err := spill(pieces)
	if err != nil {
		return nil
	}
	m.Add(one)
	return one.Bytes
}

const (
	trimEvery = 10 * time.Millisecond
	trimFrom  = 64 << 20 // about 35 MiB of them are the program
)

// Trim begins to give the pages of the mappings back to the system, again and again until Release, whenever those of all files take more
// than 64 MiB of the process's memory. What is read after that is read again from the system's cache or the file.
func (m *Maps) Trim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil || residentFiles() < 0 {
		return
	}
	done, ended := make(chan struct{}), make(chan struct{})
	m.stop = func() { close(done); <-ended }
	go func() {
		defer close(ended)
		tick := time.NewTicker(trimEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			m.mu.RLock()
			m.trim()
			m.mu.RUnlock()
		}
	}()
}

func (m *Maps) trim() {
	if residentFiles() <= trimFrom {
		return
	}
	for _, one := range m.list {
		one.Forget(one.Bytes)
	}
}

// Release ends the use of all mappings.
func (m *Maps) Release() error {
	m.mu.Lock()
	stop, list := m.stop, m.list
	m.stop, m.list = nil, nil
	m.mu.Unlock()
	if stop != nil {
		stop()
	}
	var err error
	for _, one := range list {
		err = errors.Join(err, one.Release())
	}
	return err
}
