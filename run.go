package qwb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"qwb/calib/data/npy"
	"qwb/graph/exec"
	"qwb/graph/tensor"
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
	feeds, err := j.readFeeds(o.Inputs)
	if err != nil {
		return nil, err
	}
	s, err := exec.New(m.Graph, exec.Options{Threads: o.Threads, Memory: o.Memory})
	if err != nil {
		return nil, budgetHint(fmt.Errorf("run: %s: %w", j.Model, err))
	}
	out, err := s.NewRunner().Run(ctx, feeds, nil)
	if err != nil {
		return nil, budgetHint(fmt.Errorf("run: %s: %w", j.Model, err))
	}
	names := make([]string, len(out))
	byName := map[string]*tensor.Tensor{}
	for i, v := range m.Graph.Outputs {
		names[i] = fileName(m.Graph.Value(v).Name) + ".npy"
		if _, taken := byName[names[i]]; taken {
			names[i] = fmt.Sprintf("%d-%s", i, names[i])
		}
		byName[names[i]] = out[i]
	}
	files := j.store().Stage()
	defer files.Discard()
	r := &RunResult{}
	for _, name := range names {
		path := filepath.Join(o.Output, name)
		if err := files.Add(path, func(w io.Writer) error { return npy.Write(w, byName[name]) }); err != nil {
			return nil, err
		}
		r.Files = append(r.Files, path)
	}
	return r, files.Commit()
}

// fileName turns the name of a tensor into the name of a file.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '_'
		}
		return r
	}, name)
}

// readFeeds reads the inputs of one run.
func (j *job) readFeeds(inputs []string) (map[string]*tensor.Tensor, error) {
	feeds := map[string]*tensor.Tensor{}
	for _, in := range inputs {
		name, file, ok := strings.Cut(in, "=")
		if !ok && strings.EqualFold(filepath.Ext(in), ".npz") {
			if err := j.readArchive(in, feeds); err != nil {
				return nil, fmt.Errorf("%s: %w", in, err)
			}
			continue
		}
		if !ok || name == "" || file == "" {
			return nil, Usagef("--input %q: not name=file.npy", in)
		}
		b, err := fs.ReadFile(j.store(), file)
		if err != nil {
			return nil, err
		}
		t, err := npy.Read(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if feeds[name] != nil {
			return nil, Usagef("--input: %q is given twice", name)
		}
		feeds[name] = t
	}
	return feeds, nil
}

func (j *job) readArchive(file string, feeds map[string]*tensor.Tensor) error {
	b, err := fs.ReadFile(j.store(), file)
	if err != nil {
		return err
	}
	a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	for _, name := range a.Names() {
		if feeds[name] != nil {
			return Usagef("--input: %q is given twice", name)
		}
		if feeds[name], err = a.Read(name); err != nil {
			return err
		}
	}
	return nil
}

// budgetHint says of a run that would have taken too much memory how to allow it more.
func budgetHint(err error) error {
	if full := (*exec.MemoryError)(nil); errors.As(err, &full) {
		return fmt.Errorf("%w; --mem SIZE allows more", err)
	}
	return err
}
