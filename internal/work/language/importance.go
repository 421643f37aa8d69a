package language

import (
	"context"
	"path/filepath"
	"strings"

	"qwb/calib/tune/texts"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

// Weigh returns the model with its matrices quantized under the importance matrix of a file.
func Weigh(ctx context.Context, j *open.Job, m *checkpoint.Model, path string, threads int,
	encoding func(*checkpoint.Tensor) weights.Encoding) (*checkpoint.Model, error) {
	if err := j.Readable(path); err != nil {
		return nil, err
	}
	imatrix, err := checkpoint.ReadImportance(path)
	if err != nil {
		return nil, err
	}
	done, without, err := texts.Weigh(ctx, m, imatrix, encoding, 8, max(threads, 1))
	if err != nil {
		return nil, &fault.FileError{File: path, Err: err}
	}
	if len(without) == len(done) && len(done) > 0 {
		return nil, fault.Usagef("--imatrix %s: it has nothing of this model's matrices", path)
	}
	if len(without) > 0 {
		j.Note("%s has nothing of %s: their weights count alike", path, strings.Join(without, ", "))
	}
	return m.With(done), nil
}

// importanceOn is the importance matrix of a model on the first lines of a text, with these lines. It takes the memory of one layer.
func importanceOn(ctx context.Context, j *open.Job, l *open.Language, text string,
	tokens, threads int) (m *checkpoint.Importance, ids [][]int, err error) {
	if ids, err = fitTexts(j, l, text, tokens); err != nil {
		return nil, nil, err
	}
	engine, err := l.Engine(ctx, layered(threads), nil)
	if err != nil {
		return nil, nil, err
	}
	if m, err = texts.Importance(ctx, engine, ids); err != nil {
		return nil, nil, &fault.FileError{File: l.Path, Err: err}
	}
	return m, ids, nil
}

// InputScales is the scale of what each matrix reads, so that the largest magnitude on the first lines of a text becomes top; 1 where all
// is 0. It takes the memory of one layer.
func InputScales(ctx context.Context, j *open.Job, l *open.Language, text string, tokens, threads int,
	top float32) (map[checkpoint.Part]float32, error) {
	ids, err := fitTexts(j, l, text, tokens)
	if err != nil {
		return nil, err
	}
	engine, err := l.Engine(ctx, layered(threads), nil)
	if err != nil {
		return nil, err
	}
	all, err := texts.Largest(ctx, engine, ids)
	if err != nil {
		return nil, &fault.FileError{File: l.Path, Err: err}
	}
	for p, most := range all {
		if all[p] = most / top; most == 0 {
			all[p] = 1
		}
	}
	return all, nil
}

// WriteImportance writes the importance matrix of a model on the first lines of a text.
func WriteImportance(ctx context.Context, j *open.Job, l *open.Language, text string, tokens int, path string, threads int) error {
	m, ids, err := importanceOn(ctx, j, l, text, tokens, threads)
	if err != nil {
		return err
	}
	m.Datasets, m.ChunkSize = []string{filepath.Base(text)}, uint32(l.Context)
	if _, err := store.WriteFile(j.Files(), path, m.Write); err != nil {
		return err
	}
	j.Note("%s: importance matrix of %d matrices on %d texts", path, len(m.Entries), len(ids))
	return nil
}
