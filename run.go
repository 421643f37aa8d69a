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

// RunOptions are the arguments of run.
type RunOptions struct {
	Inputs  []string // name=file.npy, or the file of an npz archive
	Output  string   // folder for the outputs
	Threads int
	Memory  int64 // what the values of the run may take, 0: as exec.Options has it
}

// RunResult says where the outputs are, in the order in which the model has them.
type RunResult struct {
	Files []string `json:"files"`
}

func (j *job) run(ctx context.Context, o RunOptions) (*RunResult, error) {
	m, err := j.openModel(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	memory := o.Memory
	if memory == 0 {
		memory = exec.AvailableMemory() / 2
	}
	feeds, err := j.readFeeds(m.Graph, o.Inputs, memory)
	if err != nil {
		return nil, err
	}
	s, err := exec.New(m.Graph, exec.Options{Threads: o.Threads, Memory: o.Memory})
	if err != nil {
		return nil, budgetHint(&FileError{Stage: "run", File: j.Model, Err: err})
	}
	out, err := s.NewRunner().Run(ctx, feeds, nil)
	if err != nil {
		return nil, budgetHint(&FileError{Stage: "run", File: j.Model, Err: err})
	}
	files := j.store().Stage()
	defer files.Discard()
	r := &RunResult{}
	for i, name := range outputFiles(m.Graph) {
		path := filepath.Join(o.Output, name)
		if err := files.Add(path, func(w io.Writer) error { return npy.Write(w, out[i]) }); err != nil {
			return nil, err
		}
		r.Files = append(r.Files, path)
	}
	return r, files.Commit()
}

// budgetHint says of a run that would have taken too much memory how to allow it more.
func budgetHint(err error) error {
	if full := (*exec.MemoryError)(nil); errors.As(err, &full) {
		return fmt.Errorf("%w; --mem SIZE allows more", err)
	}
	return err
}
