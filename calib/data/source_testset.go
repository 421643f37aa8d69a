package data

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// testSetSource is a list of ONNX test data sets: folders with input_0.pb, input_1.pb, ..., one sample each.
type testSetSource struct {
	fs   files
	dir  string
	sets []testSet
	spec InputSpec
}

type testSet struct {
	folder string // relative to dir
	files  []string
}

// openTestSets groups the given input_N.pb files by folder.
func (o *opener) openTestSets(dir string, names []string) (source, error) {
	s := &testSetSource{fs: o.fs, dir: dir, spec: o.spec}
	for _, n := range names {
		folder, file := path.Split(n)
		if at := len(s.sets) - 1; at < 0 || s.sets[at].folder != folder {
			s.sets = append(s.sets, testSet{folder: folder})
		}
		set := &s.sets[len(s.sets)-1]
		set.files = append(set.files, file)
	}
	for _, set := range s.sets {
		index := make([]int, len(set.files))
		for i, f := range set.files {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(f, "input_"), ".pb"))
			if err != nil || n < 0 || n >= len(s.spec) {
				return nil, fmt.Errorf("%s%s: the model takes %d inputs (%s)", set.folder, f, len(s.spec), s.spec)
			}
			index[i] = n
		}
		for n := range s.spec {
			if !slices.Contains(index, n) {
				return nil, fmt.Errorf("%sinput_%d.pb is missing; the model takes %s", set.folder, n, s.spec)
			}
		}
	}
	return s, nil
}

func (s *testSetSource) len() int      { return len(s.sets) }
func (s *testSetSource) label(int) int { return -1 }

func (s *testSetSource) name(i int) string {
	if f := strings.TrimSuffix(s.sets[i].folder, "/"); f != "" {
		return f
	}
	return path.Base(s.dir)
}

// load reads the tensors of a test data set. input_N.pb belongs to the input that its tensor names, or to the Nth one.
func (s *testSetSource) load(i int) (map[string]*tensor.Tensor, error) {
	feeds := map[string]*tensor.Tensor{}
	for _, f := range s.sets[i].files {
		src, err := s.fs.readAll(path.Join(s.dir, s.sets[i].folder, f), 1<<31-1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		name, t, err := onnx.ReadTensor(src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		in, ok := s.spec.Lookup(name)
		if !ok {
			n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(f, "input_"), ".pb"))
			in = s.spec[n]
		}
		switch {
		case feeds[in.Name] != nil:
			return nil, fmt.Errorf("%s: input %q is given twice", f, in.Name)
		case !in.matches(t.Shape):
			return nil, fmt.Errorf("%s: %s does not fit input %s", f, t.Type(), in)
		}
		if feeds[in.Name], err = Convert(t, in.DType); err != nil {
			return nil, fmt.Errorf("%s: input %s: %w", f, in, err)
		}
	}
	return feeds, nil
}
