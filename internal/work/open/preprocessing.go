package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"qwb/calib/data/npy"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/work/store"
)

// PreprocessOptions are the arguments of preprocess.
type PreprocessOptions struct {
	Data DataOptions
	Dump string // folder for the files
}

// PreprocessResult says what was written, in the order of the samples.
type PreprocessResult struct {
	Files []string `json:"files"`
}

func (j *Job) Preprocess(ctx context.Context, o PreprocessOptions) (*PreprocessResult, error) {
	m, err := j.OpenModel(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	set, _, err := j.OpenData(m.Graph, o.Data.Of(m))
	if err != nil {
		return nil, err
	}
	r := &PreprocessResult{}
	files := j.Files().Stage()
	defer files.Discard()
	tick, finish := j.Progress("preprocess", set.Len())
	defer finish()
	it := set.Iterator()
	for i := 0; ; i++ {
		s, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return r, files.Commit()
		}
		if err != nil {
			return nil, err
		}
		file, err := WriteArrays(files, SampleFile(o.Dump, i, s), s.Feeds)
		if err != nil {
			return nil, err
		}
		r.Files = append(r.Files, file)
		tick(i + 1)
	}
}

// SampleFile names the file, without what it ends in, for the i-th sample.
func SampleFile(folder string, i int, s *exec.Sample) string {
	return filepath.Join(folder, fmt.Sprintf("%05d_%s", i, FileName(store.BaseName(s.Name))))
}

// WriteArrays adds the file of a single array as npy, of several as npz, and returns its name.
func WriteArrays(files store.Stage, path string, arrays map[string]*tensor.Tensor) (string, error) {
	write, ext := func(w io.Writer) error { return npy.WriteArchive(w, arrays) }, ".npz"
	if len(arrays) == 1 {
		ext = ".npy"
		write = func(w io.Writer) error {
			for _, t := range arrays {
				return npy.Write(w, t)
			}
			return nil
		}
	}
	return path + ext, files.Add(path+ext, write)
}
