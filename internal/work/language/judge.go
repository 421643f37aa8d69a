package language

import (
	"context"
	"fmt"
	"slices"

	"qwb/analysis/language"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
)

// Judge finds for which matrices searched scales are better than nearest ones, on the texts of a file, and tells what it found. The
// weights are those of w.
func Judge(ctx context.Context, j *open.Job, l *open.Language, w decode.Weights, file string,
	threads int) ([]checkpoint.Role, []language.Judged, error) {
	if file == "" {
		return nil, nil, fault.Usagef("--method %s needs --judge: a text, one sequence per line, other than the one that measures",
			weights.Judged)
	}
	nearest, searched := w, w
	nearest.Search, searched.Search, searched.Only = false, true, 0
	engine, err := l.Engine(ctx, decode.Options{Threads: threads, Weights: nearest}, nil)
	if err != nil {
		return nil, nil, err
	}
	cfg := language.JudgeConfig{Model: engine, Name: weights.ScaleRange, Threads: threads,
		Try: func(ctx context.Context, p checkpoint.Part) (func(), error) {
			return engine.Replace(ctx, l.Model, p, searched)
		}}
	for _, t := range matricesOf(l.Model) {
		if !t.Floats() || l.Tied && t.Role == checkpoint.Classifier {
			continue
		}
		if cfg.Parts = append(cfg.Parts, t.Part); !slices.Contains(cfg.Roles, t.Role) {
			cfg.Roles = append(cfg.Roles, t.Role)
		}
	}
	var open *lines
	defer func() {
		if open != nil {
			open.Close()
		}
	}()
	cfg.Texts = func() (language.Passages, error) {
		if open != nil {
			open.Close()
		}
		if open, err = readLines(l, TextOptions{Text: file}, l.Context); err != nil {
			return nil, err
		}
		return func(context.Context) (*language.Passage, error) { return open.next() }, nil
	}
	if err := j.Readable(file); err != nil {
		return nil, nil, err
	}
	tick, finish := j.Progress("matrices judged", len(cfg.Roles))
	cfg.Progress = tick
	kept, judged, err := language.Judge(ctx, cfg)
	finish()
	if err != nil {
		return nil, nil, &fault.FileError{File: file, Err: err}
	}
	for _, r := range judged {
		j.Note("%s", r)
	}
	j.Note("%s kept for %d of %d kinds of matrices", weights.ScaleRange, len(kept), len(cfg.Roles))
	return kept, judged, nil
}

// settledForm is formOf, or what the judgement says where the form is to be judged.
func settledForm(ctx context.Context, j *open.Job, l *open.Language, o *LanguageOptions) (form, error) {
	f, err := formOf(j, l.Model, o)
	if err == nil {
		err = settle(ctx, j, l, &f, o)
	}
	return f, err
}

// settle replaces a form that is to be judged by what the judgement says.
func settle(ctx context.Context, j *open.Job, l *open.Language, f *form, o *LanguageOptions) error {
	if weights.WayOf(o.Method).Fit {
		return f.fit(ctx, j, l, o)
	}
	if o.Method != weights.Judged {
		return nil
	}
	kept, judged, err := Judge(ctx, j, l, f.Weights, o.Judge, o.Threads)
	if err != nil {
		return err
	}
	f.Search, f.Only, f.judged = len(kept) > 0, decode.Have(kept...), judged
	if f.Search {
		f.text += fmt.Sprintf(", searched scales of %v", kept)
	}
	return nil
}
