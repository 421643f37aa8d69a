package qwb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"qwb/calib/data/npy"
	"qwb/graph/exec"
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

func (j *job) preprocess(ctx context.Context, o PreprocessOptions) (*PreprocessResult, error) {
	m, err := j.openModel(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	set, _, err := j.openData(m.Graph, o.Data.Of(m))
	if err != nil {
		return nil, err
	}
	r := &PreprocessResult{}
	files := j.store().Stage()
	defer files.Discard()
	tick, finish := j.progress("preprocess", set.Len())
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
		name := fmt.Sprintf("%05d_%s", i, fileName(BaseName(s.Name)))
		file, err := writeSample(files, filepath.Join(o.Dump, name), s)
		if err != nil {
			return nil, err
		}
		r.Files = append(r.Files, file)
		tick(i + 1)
	}
}

// writeSample returns the name of the file that it adds.
func writeSample(files Stage, path string, s *exec.Sample) (string, error) {
	write, ext := func(w io.Writer) error { return npy.WriteArchive(w, s.Feeds) }, ".npz"
	if len(s.Feeds) == 1 {
		ext = ".npy"
		write = func(w io.Writer) error {
			for _, t := range s.Feeds {
				return npy.Write(w, t)
			}
			return nil
		}
	}
	return path + ext, files.Add(path+ext, write)
}
