package data

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/tensor"
)

// arraySource is a list of .npy and .npz files. A file is one sample, or several along the first axis: see rows.
type arraySource struct {
	fs    files
	dir   string
	spec  InputSpec
	files []arrayFile
	steps bool // the samples of a file are the steps of a sequence, or of several

	mu     sync.Mutex
	cached int // the file whose arrays are kept in memory, -1: none; rows of an archive cannot be read one by one
	arrays map[string]*tensor.Tensor
}

type arrayFile struct {
	name   string
	start  int // index of its first sample
	rows   int
	names  map[string]string // array in the file by input of the model; nil: the file is a single array
	direct bool              // rows can be read on their own
	// of steps: how many sequences the rows are, one after the other, and what states begin with by input, where the file says it
	sequences int
	states    map[string]string
}

func (o *opener) openArrays(dir string, names []string) (source, error) {
	s := &arraySource{fs: o.fs, dir: dir, spec: o.spec, steps: o.steps != nil, cached: -1}
	for _, n := range names {
		f, err := s.inspect(o, n)
		if err != nil {
			return nil, &graph.FileError{File: n, Err: err}
		}
		f.name, f.start = n, s.len()
		s.files = append(s.files, f)
	}
	return s, nil
}

// inspect reads the headers in a file and holds them against the model's inputs.
func (s *arraySource) inspect(o *opener, name string) (arrayFile, error) {
	r, size, err := s.fs.open(path.Join(s.dir, name))
	if err != nil {
		return arrayFile{}, err
	}
	defer r.Close()
	if strings.HasSuffix(strings.ToLower(name), ".npz") {
		a, err := npy.OpenArchive(r, size)
		if err != nil {
			return arrayFile{}, err
		}
		return s.inspectArchive(o, name, a)
	}
	in, err := s.spec.only("npy files")
	if err != nil {
		return arrayFile{}, err
	}
	h, err := npy.ReadHeader(io.NewSectionReader(r, 0, size))
	if err != nil {
		return arrayFile{}, err
	}
	if h.Bytes() > size-h.Offset {
		return arrayFile{}, fmt.Errorf("npy: %s takes %d bytes, %d are there", tensor.TypeString(h.DType, h.Shape), h.Bytes(), size-h.Offset)
	}
	f, err := s.fit(in, h)
	if f.turned {
		o.noteTurned(name, in)
	}
	direct := !h.Fortran && f.axis == 0 && f.sequences < 2
	if err == nil {
		err = s.room(in, h, f.rows, direct)
	}
	return arrayFile{rows: f.rows, direct: direct, sequences: f.sequences}, err
}

// room refuses an array of which too much has to be held at once: a row where rows are read by themselves, else all; as it is read, and
// as a tensor of its type and of the input's.
func (s *arraySource) room(in Input, h npy.Header, rows int, direct bool) error {
	bytes := 2 * h.Bytes()
	if direct {
		bytes /= int64(max(rows, 1))
	}
	if h.DType != in.DType && in.DType.Bits() >= 8 {
		bytes += int64(in.DType.Bytes(h.Count() / max(rows, 1)))
	}
	return s.fs.room(bytes)
}

func (s *arraySource) inspectArchive(o *opener, name string, a *npy.Archive) (arrayFile, error) {
	f := arrayFile{names: map[string]string{}}
	used := map[string]bool{}
	for _, in := range s.spec {
		array := in.Name
		if len(s.spec) == 1 {
			array = s.only(in, a)
		}
		h, err := a.Header(array)
		if err != nil {
			return f, fmt.Errorf("%w (there are %s; the model takes %s)", err, strings.Join(a.Names(), ", "), s.spec)
		}
		fit, err := s.fit(in, h)
		if err != nil {
			return f, err
		}
		if err := s.room(in, h, fit.rows, false); err != nil {
			return f, err
		}
		if s.steps && fit.rows == 1 && len(s.spec) > 1 { // the same at every step
			f.names[in.Name], used[array], f.rows = array, true, max(f.rows, 1)
			continue
		}
		if s.steps && f.rows == 1 {
			f.rows = 0
		}
		if fit.turned {
			o.noteTurned(fmt.Sprintf("%q in %s", array, name), in)
		}
		if f.rows != 0 && fit.rows != f.rows {
			return f, fmt.Errorf("npz: %d samples for input %s, %d for others", fit.rows, in, f.rows)
		}
		f.rows, f.names[in.Name], used[array] = fit.rows, array, true
		f.sequences = fit.sequences
	}
	for _, in := range o.steps {
		if slices.Contains(a.Names(), in.Name) {
			if f.states == nil {
				f.states = map[string]string{}
			}
			f.states[in.Name], used[in.Name] = in.Name, true
		}
	}
	for _, n := range a.Names() {
		if !used[n] && o.ignored == "" {
			o.ignored = fmt.Sprintf("%q in %s", n, name)
		}
	}
	return f, nil
}

// noteTurned keeps the first array whose layout was changed, for a warning.
func (o *opener) noteTurned(array string, in Input) {
	if o.turned == "" {
		o.turned = fmt.Sprintf("%s (input %s)", array, in)
	}
}

// only returns the name of the array in an archive that feeds a model's single input: the array with the name of the input,
// otherwise the only array, otherwise the only array that fits.
func (s *arraySource) only(in Input, a *npy.Archive) string {
	names := a.Names()
	switch {
	case slices.Contains(names, in.Name):
		return in.Name
	case len(names) == 1:
		return names[0]
	}
	found := in.Name
	for _, n := range names {
		h, err := a.Header(n)
		if err != nil {
			continue
		}
		if _, err := s.fit(in, h); err == nil {
			if found != in.Name {
				return in.Name // more than one
			}
			found = n
		}
	}
	return found
}

// arrayFit is how an array feeds an input: rows samples of shape. A turned one has its channels last where the input has them first.
type arrayFit struct {
	rows   int
	shape  []int
	turned bool
	// of steps: how many sequences the rows are, and the axis that they are cut along, 0 for rows that lie one behind the other
	sequences, axis int
}

// fit is that of the input, for samples or for steps.
func (s *arraySource) fit(in Input, h npy.Header) (arrayFit, error) {
	if s.steps {
		return in.fitSteps(h)
	}
	return in.fit(h)
}

// fit is rows for arrays as they are, and, where that fails, for pictures and spectrograms in TensorFlow's layout.
func (in Input) fit(h npy.Header) (arrayFit, error) {
	n, shape, err := in.rows(h)
	if err == nil || len(in.Shape) != 4 || len(h.Shape) != 4 {
		return arrayFit{rows: n, shape: shape}, err
	}
	t := h
	t.Shape = []int{h.Shape[0], h.Shape[3], h.Shape[1], h.Shape[2]}
	if n, shape, turned := in.rows(t); turned == nil {
		return arrayFit{rows: n, shape: shape, turned: true}, nil
	}
	return arrayFit{}, err
}

// rows returns how many samples an array holds for the input, and the shape of one. An array with the input's shape is one
// sample, with or without the batch dimension. If the input takes a batch of 1 or of any size, each row of an array with more
// rows is a sample; only a vector of open length is always one sample.
func (in Input) rows(h npy.Header) (int, []int, error) {
	shape, want := h.Shape, in.Shape
	batch := len(want) > 0 && (!want[0].Known() || want[0].N == 1)
	switch {
	case in.matches(shape) && !(batch && len(shape) > 1 && shape[0] != 1):
		return 1, shape, nil
	case batch && len(shape) > 0 && in.matches(append([]int{1}, shape[1:]...)):
		if shape[0] == 0 {
			return 0, nil, errors.New("the array holds no samples")
		}
		return shape[0], append([]int{1}, shape[1:]...), nil
	case batch && in.matches(append([]int{1}, shape...)):
		return 1, append([]int{1}, shape...), nil
	}
	return 0, nil, fmt.Errorf("%s does not fit input %s", tensor.TypeString(h.DType, shape), in)
}

func (s *arraySource) len() int {
	if len(s.files) == 0 {
		return 0
	}
	last := s.files[len(s.files)-1]
	return last.start + last.rows
}

// find returns the file of sample i and the sample's row in it.
func (s *arraySource) find(i int) (int, int) {
	f := sort.Search(len(s.files), func(f int) bool { return s.files[f].start > i }) - 1
	return f, i - s.files[f].start
}

func (s *arraySource) name(i int) string {
	f, row := s.find(i)
	return indexedName(s.files[f].name, row, s.files[f].rows)
}

// indexedName names sample i of n in a file such that names sort as indices do.
func indexedName(file string, i, n int) string {
	if n == 1 {
		return file
	}
	return fmt.Sprintf("%s#%06d", file, i)
}

func (s *arraySource) label(int) int { return -1 }

func (s *arraySource) load(i int) (map[string]*tensor.Tensor, error) {
	f, row := s.find(i)
	var arrays map[string]*tensor.Tensor
	var err error
	if file := s.files[f]; file.direct || file.rows == 1 {
		arrays, err = s.read(f, row)
		row = 0
	} else {
		arrays, err = s.readCached(f)
	}
	if err != nil {
		return nil, err
	}
	feeds := map[string]*tensor.Tensor{}
	for _, in := range s.spec {
		t := arrays[in.Name]
		f, err := s.fit(in, npy.Header{DType: t.DType, Shape: t.Shape})
		if err != nil {
			return nil, err
		}
		if at := min(row, f.rows-1); f.axis > 0 {
			t, err = f.cut(t, at)
		} else {
			t = slice(t, at, f.rows, f.shape)
		}
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", in, err)
		}
		if f.turned {
			t.Layout = tensor.ChannelsLast
			t = t.ToRowMajor()
		}
		t, err = Convert(t, in.DType)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", in, err)
		}
		feeds[in.Name] = t
	}
	return feeds, nil
}

// readCached reads all arrays of a file and keeps them until another file is asked for.
func (s *arraySource) readCached(f int) (map[string]*tensor.Tensor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached != f {
		arrays, err := s.read(f, 0)
		if err != nil {
			return nil, err
		}
		s.cached, s.arrays = f, arrays
	}
	return s.arrays, nil
}

// read reads the arrays of a file by input name; of one whose rows can be read on their own, only the given row.
func (s *arraySource) read(f, row int) (map[string]*tensor.Tensor, error) {
	file := s.files[f]
	r, size, err := s.fs.open(path.Join(s.dir, file.name))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	arrays := map[string]*tensor.Tensor{}
	if file.names != nil {
		a, err := npy.OpenArchive(r, size)
		if err != nil {
			return nil, err
		}
		for _, list := range []map[string]string{file.names, file.states} {
			for in, array := range list {
				if arrays[in], err = a.Read(array); err != nil {
					return nil, err
				}
			}
		}
		return arrays, nil
	}
	in := s.spec[0].Name
	if file.rows == 1 || !file.direct {
		arrays[in], err = npy.Read(io.NewSectionReader(r, 0, size))
		return arrays, err
	}
	h, err := npy.ReadHeader(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, err
	}
	arrays[in], err = h.ReadRows(r, row, row+1)
	return arrays, err
}

// slice copies row i of n rows of t, or returns t reshaped where it is a single one.
func slice(t *tensor.Tensor, i, n int, shape []int) *tensor.Tensor {
	if n == 1 {
		return &tensor.Tensor{DType: t.DType, Shape: shape, Data: t.Data}
	}
	out := tensor.New(t.DType, shape...)
	at, size := i*out.Len(), out.Len()
	switch s := t.Data.(type) {
	case []bool:
		copy(tensor.Of[bool](out), s[at:at+size])
	case []int8:
		copy(tensor.Of[int8](out), s[at:at+size])
	case []uint8:
		copy(tensor.Of[uint8](out), s[at:at+size])
	case []int16:
		copy(tensor.Of[int16](out), s[at:at+size])
	case []uint16:
		copy(tensor.Of[uint16](out), s[at:at+size])
	case []int32:
		copy(tensor.Of[int32](out), s[at:at+size])
	case []uint32:
		copy(tensor.Of[uint32](out), s[at:at+size])
	case []float32:
		copy(out.F32(), s[at:at+size])
	case []int64:
		copy(out.I64(), s[at:at+size])
	case []uint64:
		copy(tensor.Of[uint64](out), s[at:at+size])
	case []float64:
		copy(tensor.Of[float64](out), s[at:at+size])
	}
	return out
}
