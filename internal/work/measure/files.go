package measure

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/file"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
)

// outputFiles names a file for each output of g: after the output, as far as that can be the name of a file, with its position where
// that would not be unique.
func outputFiles(g *graph.Graph) []string {
	names := make([]string, len(g.Outputs))
	taken := map[string]bool{}
	for i, v := range g.Outputs {
		name := open.FileName(g.Value(v).Name) + ".npy"
		if taken[name] {
			name = fmt.Sprintf("%d-%s", i, name)
		}
		taken[name], names[i] = true, name
	}
	return names
}

// readFeeds reads the inputs of one run of g. Nothing of an array but its header is read before it is known that an input of the graph
// takes what it holds, and that all of them together take no more than so many bytes; 0 is any number.
func readFeeds(j *open.Job, g *graph.Graph, inputs []string, memory int64) (map[string]*tensor.Tensor, error) {
	f := feedReader{store: j.Files(), g: g, memory: memory, feeds: map[string]*tensor.Tensor{}}
	for _, in := range inputs {
		name, path, ok := strings.Cut(in, "=")
		read := func() error { return f.array(name, path) }
		switch {
		case !ok && strings.EqualFold(filepath.Ext(in), ".npz"):
			path = in
			read = func() error { return f.archive(in) }
		case !ok || name == "" || path == "":
			return nil, fault.Usagef("--input %q: not name=file.npy", in)
		}
		if err := read(); err != nil {
			return nil, &fault.FileError{File: path, Err: err}
		}
	}
	return f.feeds, nil
}

type feedReader struct {
	store        store.Store
	g            *graph.Graph
	memory, held int64
	feeds        map[string]*tensor.Tensor
}

// admit holds the header of an array against the input that it is for.
func (f *feedReader) admit(name string, h npy.Header) error {
	if f.feeds[name] != nil {
		return fault.Usagef("--input: %q is given twice", name)
	}
	got := tensor.TypeString(h.DType, h.Shape)
	if v, ok := f.g.Lookup(name); ok && f.g.IsInput(v) { // another name is an error of the run, which lists the names
		val := f.g.Value(v)
		fits := (val.DType == tensor.Undefined || val.DType == h.DType) && (val.Shape == nil || len(val.Shape) == len(h.Shape))
		for i := 0; fits && val.Shape != nil && i < len(h.Shape); i++ {
			fits = val.Shape[i].N <= 0 || val.Shape[i].N == int64(h.Shape[i])
		}
		if !fits {
			return fmt.Errorf("input %q is %s, got %s", name, graph.FormatType(val.DType, val.Shape), got)
		}
	}
	if bytes := h.Bytes(); f.memory > 0 && bytes > f.memory-f.held {
		return samples.BudgetHint(&exec.MemoryError{Type: got, Bytes: bytes, Held: f.held, Budget: f.memory})
	}
	f.held += h.Bytes()
	return nil
}

func (f *feedReader) array(name, path string) error {
	src, err := f.store.Open(path)
	if err != nil {
		return file.Plain(err)
	}
	defer src.Close()
	r := bufio.NewReader(src)
	h, err := npy.ReadHeader(r)
	if err != nil {
		return err
	}
	if err := f.admit(name, h); err != nil {
		return err
	}
	f.feeds[name], err = h.Read(r)
	return err
}

func (f *feedReader) archive(path string) error {
	r, size, end, err := store.ReadAt(f.store, path)
	if err != nil {
		return file.Plain(err)
	}
	defer end()
	a, err := npy.OpenArchive(r, size)
	if err != nil {
		return err
	}
	for _, name := range a.Names() {
		h, err := a.Header(name)
		if err != nil {
			return err
		}
		if err := f.admit(name, h); err != nil {
			return err
		}
		if f.feeds[name], err = a.Read(name); err != nil {
			return err
		}
	}
	return nil
}
