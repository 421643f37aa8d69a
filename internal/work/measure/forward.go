package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/calib/data/npy"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

// RunOptions are the arguments of run.
type RunOptions struct {
	Inputs  []string         // of one run: name=file.npy, or the file of an npz archive
	Data    open.DataOptions // where there are no Inputs: samples to run on; of a plan its own if none are named
	Mode    string           // fp32 (also ""), sim or int8; the last two need a plan
	Backend string           // of mode int8
	Profile string           // of mode int8; empty: the platform's
	Output  string           // folder for the outputs
	// All writes every tensor that is computed, not the outputs alone: an npz for each run, which verify takes as a recording.
	All     bool
	Threads int
	Memory  int64 // what the values of the run may take, 0: as exec.Options has it
}

// RunResult says where the outputs are: of one run in the order in which the model has them, of samples in the order of these.
type RunResult struct {
	Files []string `json:"files"`
	// Placed says where the steps of the last run of an integer program ran; nil where all ran by the processor's kernels, and in float.
	Placed *analysis.Placed `json:"placed,omitempty"`
}

func Forward(ctx context.Context, j *open.Job, o RunOptions) (*RunResult, error) {
	f, err := forward(j, o)
	if err != nil {
		return nil, err
	}
	defer f.close()
	files := j.Files().Stage()
	defer files.Discard()
	var r *RunResult
	if len(o.Inputs) == 0 && (len(o.Data.Paths) > 0 || j.Plan != "") {
		r, err = runAll(ctx, j, f, o, files)
	} else {
		r, err = runOnce(ctx, j, f, o, files)
	}
	if err != nil {
		return nil, err
	}
	if f.integer != nil {
		r.Placed = verify.Placed(f.integer.Placement())
	}
	return r, files.Commit()
}

// runOnce writes a file for each output.
func runOnce(ctx context.Context, j *open.Job, f *forwarder, o RunOptions, files store.Stage) (*RunResult, error) {
	memory := o.Memory
	if memory == 0 {
		memory = exec.AvailableMemory() / 2
	}
	feeds, err := readFeeds(j, f.graph, o.Inputs, memory)
	if err != nil {
		return nil, err
	}
	if err := f.fits(ctx, feeds); err != nil {
		return nil, err
	}
	if o.All {
		arrays, err := f.all(ctx, feeds)
		if err != nil {
			return nil, err
		}
		file, err := writeAll(j, files, filepath.Join(o.Output, "tensors"), arrays)
		return &RunResult{Files: []string{file}}, err
	}
	out, err := f.run(ctx, feeds)
	if err != nil {
		return nil, err
	}
	r := &RunResult{}
	for i, name := range outputFiles(f.graph) {
		path := filepath.Join(o.Output, name)
		if err := files.Add(path, func(w io.Writer) error { return npy.Write(w, out[i]) }); err != nil {
			return nil, err
		}
		r.Files = append(r.Files, path)
	}
	return r, nil
}

// fits refuses a run that takes more memory than there may be.
func (f *forwarder) fits(ctx context.Context, feeds map[string]*tensor.Tensor) error {
	_, _, err := exec.Fit(ctx, f.graph, feeds, exec.Work{}, 0)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// runAll writes a file for each sample, named as preprocess names them: npy of a single output, npz of several.
func runAll(ctx context.Context, j *open.Job, f *forwarder, o RunOptions, files store.Stage) (*RunResult, error) {
	set, _, err := j.OpenData(f.graph, f.data(o.Data))
	if err != nil {
		return nil, err
	}
	tick, finish := j.Progress("run", set.Len())
	defer finish()
	r := &RunResult{}
	var rolling exec.Rolling
	it := set.Iterator()
	for i := 0; ; i++ {
		s, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if err := f.fits(ctx, s.Feeds); err != nil {
				return nil, err
			}
		}
		arrays := map[string]*tensor.Tensor{}
		write := open.WriteArrays
		if o.All {
			arrays, err = f.all(ctx, rolling.Feeds(s))
			write = func(files store.Stage, path string, arrays map[string]*tensor.Tensor) (string, error) {
				return writeAll(j, files, path, arrays)
			}
		}
		if err == nil && (!o.All || s.Sequence != nil) {
			var out []*tensor.Tensor
			if out, err = f.run(ctx, rolling.Feeds(s)); err == nil {
				err = rolling.Keep(f.graph, s, out)
			}
			for k, v := range f.graph.Outputs {
				if err == nil && !o.All {
					arrays[f.graph.Value(v).Name] = out[k]
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w (sample %s)", err, s.Name)
		}
		file, err := write(files, open.SampleFile(o.Output, i, s), arrays)
		if err != nil {
			return nil, err
		}
		r.Files = append(r.Files, file)
		tick(i + 1)
	}
}

// writeAll adds an npz of all tensors that NumPy has a type for, and warns of the others.
func writeAll(j *open.Job, files store.Stage, path string, arrays map[string]*tensor.Tensor) (string, error) {
	left := 0
	maps.DeleteFunc(arrays, func(_ string, t *tensor.Tensor) bool {
		if npy.Holds(t.DType) {
			return false
		}
		left++
		return true
	})
	if left > 0 {
		j.Warn("%s not written: NumPy has no such type", plain.Count(left, "tensor"))
	}
	path += ".npz"
	return path, files.Add(path, func(w io.Writer) error { return npy.WriteArchive(w, arrays) })
}
