package language

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"qwb/calib/tune/texts"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
)

// FitTokens is how many tokens of a text weights are fitted to unless another number is given: whole lines until there are so many.
const FitTokens = 1 << 14

// Fitting says what Fit fits, as texts.Config does.
type Fitting struct {
	Text     string // file, one sequence per line
	Tokens   int    // of it, in whole lines; 0: FitTokens
	Way      weights.Way
	Bits     int
	Threads  int
	Encoding func(t *checkpoint.Tensor) weights.Encoding
	// Unfinished is where matrices are kept for a run that goes on after this one was interrupted; empty: nowhere.
	Unfinished string
}

// Fit returns the model with its matrices fitted to a text, and tells what they lose.
func Fit(ctx context.Context, j *open.Job, l *open.Language, o Fitting) (*checkpoint.Model, error) {
	ids, err := fitTexts(j, l, o.Text, o.Tokens)
	if err != nil {
		return nil, err
	}
	if err := fits(ctx, l.Model, o.Way, ids, false); err != nil {
		return nil, err
	}
	float := layered(o.Threads)
	if o.Way.Scale {
		if l, err = scaled(ctx, j, l, o, ids); err != nil {
			return nil, err
		}
	}
	engine, err := l.Engine(ctx, float, nil)
	if err != nil {
		return nil, err
	}
	matrices := 0
	for _, t := range matricesOf(l.Model) {
		if o.Encoding(t).Quantized() {
			matrices++
		}
	}
	var beside *decode.Engine
	if o.Way.Follow {
		if beside, err = l.Engine(ctx, float, nil); err != nil {
			return nil, err
		}
	}
	var unseen []string
	cfg := texts.Config{Model: l.Model, Engine: engine, Float: beside, Encoding: o.Encoding, Bits: o.Bits,
		Texts: ids, Round: o.Way.Round, Threads: max(o.Threads, 1), Held: heldBytes(ctx),
		Unseen: func(parts []checkpoint.Part) {
			for _, p := range parts {
				unseen = append(unseen, p.String())
			}
		}}
	if o.Unfinished != "" {
		u, err := openUnfinished(ctx, j, l, o, ids)
		if err != nil {
			return nil, err
		}
		defer u.close()
		cfg.Keep, cfg.Kept, cfg.Lost = u.keep, u.tensors, u.losses
	}
	tick, finish := j.Progress("matrices fitted", matrices)
	cfg.Progress = tick
	tensors, losses, err := texts.Fit(ctx, cfg)
	finish()
	if err != nil {
		return nil, &fault.FileError{File: l.Path, Err: err}
	}
	if len(unseen) > 0 {
		j.Note("no token of %s came to %s: their weights count alike", o.Text, strings.Join(unseen, ", "))
	}
	var before, after float64
	for _, x := range losses {
		j.Detail("%s: error of the output %.3g, fitted %.3g", x.Part, x.Plain, x.Fit)
		before, after = before+x.Plain/float64(len(losses)), after+x.Fit/float64(len(losses))
	}
	j.Note("%d matrices fitted to %s: mean error of outputs %.3g, with the nearest codes %.3g", len(tensors), o.Text, after,
		before)
	return l.With(tensors), nil
}

// layered are the options of an engine that has one layer in memory.
func layered(threads int) decode.Options {
	return decode.Options{Threads: threads, Weights: decode.Weights{Float: true}, Layered: true}
}

// scaled is the model with the channels of its inputs scaled, which computes the same.
func scaled(ctx context.Context, j *open.Job, l *open.Language, o Fitting, ids [][]int) (*open.Language, error) {
	engine, err := l.Engine(ctx, layered(o.Threads), nil)
	if err != nil {
		return nil, err
	}
	tensors, chosen, err := texts.Scale(ctx, texts.Config{Model: l.Model, Engine: engine, Encoding: o.Encoding, Bits: o.Bits, Texts: ids,
		Threads: max(o.Threads, 1)}, o.Way.Smooth)
	if err != nil {
		return nil, &fault.FileError{File: l.Path, Err: err}
	}
	var before, after float64
	for _, x := range chosen {
		j.Detail("%s: channels scaled by inputs ^ %g / weights ^ %g, error %.3g, before %.3g", x.Part, x.Inputs, x.Weight, x.Scaled, x.Plain)
		before, after = before+x.Plain/float64(len(chosen)), after+x.Scaled/float64(len(chosen))
	}
	j.Note("inputs of %d matrices scaled by channel: mean error of held-out outputs with the nearest codes %.3g, before %.3g", len(chosen),
		after, before)
	return &open.Language{Model: l.With(tensors), Tokenizer: l.Tokenizer}, nil
}

// fitTexts reads the first lines of a file, which have so many tokens; 0: FitTokens.
func fitTexts(j *open.Job, l *open.Language, file string, tokens int) (ids [][]int, err error) {
	if ids, err = textsOf(j, l, file, cmp.Or(tokens, FitTokens)); err == nil && len(ids) == 0 {
		return nil, fault.Usagef("--fit %s: there is no text in it", file)
	}
	return ids, err
}

// textsOf reads the lines of a text, until they have so many tokens.
func textsOf(j *open.Job, l *open.Language, file string, most int) (ids [][]int, err error) {
	if err := j.Readable(file); err != nil {
		return nil, err
	}
	lines, err := readLines(l, TextOptions{Text: file}, l.Context)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	for n := 0; n < most; {
		p, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &fault.FileError{File: file, Err: err}
		}
		ids, n = append(ids, p.IDs), n+len(p.IDs)
	}
	return ids, nil
}

// fit replaces the weights of the form by fitted ones.
func (f *form) fit(ctx context.Context, j *open.Job, l *open.Language, o *LanguageOptions) (err error) {
	bits := f.Bits
	if bits == 0 {
		bits = 8
	}
	for _, t := range matricesOf(l.Model) {
		if f.Quantizes(t) && t.Cols%f.Group != 0 {
			return fault.Usagef("--method %s: groups of %d do not divide the rows of %s (%d): give --group-fallback", o.Method, f.Group, t.Part,
				t.Cols)
		}
	}
	f.text += ", " + o.Method
	f.fitted, err = Fit(ctx, j, l, Fitting{Text: o.Fit, Way: weights.WayOf(o.Method), Bits: bits, Threads: o.Threads,
		Encoding: func(t *checkpoint.Tensor) weights.Encoding {
			if !f.Quantizes(t) {
				return weights.Float
			}
			return weights.Encoding{Type: checkpoint.Groups, Group: f.Group}
		}})
	return err
}
