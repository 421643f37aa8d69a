package compare

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

// answered is what another engine answered: outputs by sample. It is a folder as qwb run writes one, with a file for each sample (npy of a
// single output, npz of several), or one file with a row for each sample (npy, or npz with an array for each output).
type answered struct {
	file string
	// of is what the outputs are those of: their names and their order.
	of *graph.Graph
	// rows are the arrays of one file, in the order of the outputs; nil for a folder.
	rows  []*tensor.Tensor
	store store.Store
}

// isRecording reports whether a name is that of recorded outputs.
func isRecording(s store.Store, name string) bool {
	if ext := strings.ToLower(filepath.Ext(name)); ext == ".npy" || ext == ".npz" {
		return true
	}
	info, err := fs.Stat(s, name)
	return err == nil && info.IsDir()
}

// openRecording opens outputs of n samples.
func openRecording(j *open.Job, file string, of *graph.Graph, n int) (*answered, error) {
	r := &answered{file: file, of: of, store: j.Files()}
	if info, err := fs.Stat(j.Files(), file); err != nil {
		return nil, err
	} else if info.IsDir() {
		return r, nil
	}
	var err error
	if r.rows, err = r.read(file); err != nil {
		return nil, err
	}
	for i, t := range r.rows {
		if len(t.Shape) < 1 || t.Shape[0] != n {
			return nil, &fault.FileError{File: file, Err: fmt.Errorf("output %q is %s: one row is needed for each of the %d samples",
				of.Value(of.Outputs[i]).Name, t.Type(), n)}
		}
	}
	return r, nil
}

// read reads the outputs in a file, in their order.
func (r *answered) read(file string) ([]*tensor.Tensor, error) {
	b, err := fs.ReadFile(r.store, file)
	if err != nil {
		return nil, err
	}
	fail := func(err error) ([]*tensor.Tensor, error) { return nil, &fault.FileError{File: file, Err: err} }
	if strings.ToLower(filepath.Ext(file)) == ".npy" {
		if n := len(r.of.Outputs); n != 1 {
			return fail(fmt.Errorf("one array, and the network has %d outputs: give an npz file with an array for each", n))
		}
		t, err := npy.Read(bytes.NewReader(b))
		if err == nil {
			t, err = floats(t)
		}
		if err != nil {
			return fail(err)
		}
		return []*tensor.Tensor{t}, nil
	}
	a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return fail(err)
	}
	list := make([]*tensor.Tensor, len(r.of.Outputs))
	for i, v := range r.of.Outputs {
		name := r.of.Value(v).Name
		if list[i], err = a.Read(name); err == nil {
			list[i], err = floats(list[i])
		}
		if err != nil {
			return fail(fmt.Errorf("output %q: %w; the file has %s", name, err, strings.Join(a.Names(), ", ")))
		}
	}
	return list, nil
}

// floats turns what NumPy makes of float32 by itself back.
func floats(t *tensor.Tensor) (*tensor.Tensor, error) {
	switch x := t.Data.(type) {
	case []float64:
		out := tensor.New(tensor.Float32, t.Shape...)
		for i, v := range x {
			out.F32()[i] = float32(v)
		}
		return out, nil
	case []uint16:
		if t.DType == tensor.Float16 || t.DType == tensor.BFloat16 {
			return nil, fmt.Errorf("%s: save it as float32", t.Type())
		}
	}
	return t, nil
}

// sample returns the outputs for one sample, the i-th of the data.
func (r *answered) sample(i int, s *exec.Sample) ([]*tensor.Tensor, error) {
	if r.rows != nil {
		out := make([]*tensor.Tensor, len(r.rows))
		for k, t := range r.rows {
			var err error
			if out[k], err = t.Part(i, t.Shape[0]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	tried := []string{open.SampleFile(r.file, i, s), filepath.Join(r.file, open.FileName(store.BaseName(s.Name)))}
	for _, name := range tried {
		for _, ext := range []string{".npy", ".npz"} {
			if _, err := fs.Stat(r.store, name+ext); err == nil {
				return r.read(name + ext)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("there are no outputs for it: neither %s nor %s, each with .npy or .npz, is there", tried[0], tried[1])
}
