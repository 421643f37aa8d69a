package workbench

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"qwb"
	"qwb/analysis/language"
	"qwb/graph/language/checkpoint"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

// languageLine is a command about the checkpoint that is open, unless its options are wrong.
func (b *Bench) languageLine(name string, wrong error, t options.Table) (string, error) {
	model := b.project().Model
	switch {
	case model == "":
		return "", qwb.Usagef("no model is open")
	case wrong != nil:
		return "", wrong
	}
	return command(append([]string{name, model}, t.Words()...)...), nil
}

// StoredMatrix is a matrix of a checkpoint as its file has it.
type StoredMatrix struct {
	Node  string  `json:"node"`  // as language.MatrixDamage has it
	Op    string  `json:"op"`    // likewise
	Layer int     `json:"layer"` // from 0; -1 outside of the layers
	Name  string  `json:"name"`  // in the file
	Rows  int     `json:"rows"`
	Cols  int     `json:"cols"`
	Type  string  `json:"type"` // float32, Q4_K, ...
	Bits  float64 `json:"bits"` // per weight, scales included
	Bytes int     `json:"bytes"`
	// Energy is the mean square of the inputs in the importance matrix, Focus the share of it that the strongest hundredth of the inputs
	// has (at least one input), from 0 to 1; nil where there is none.
	Energy *float64 `json:"energy,omitempty"`
	Focus  *float64 `json:"focus,omitempty"`
}

// StoredMatrices are the matrices of a checkpoint, in the order of computation.
type StoredMatrices struct {
	Matrices []StoredMatrix `json:"matrices"`
	Imatrix  string         `json:"imatrix,omitempty"` // the importance matrix beside the checkpoint
	Note     string         `json:"note,omitempty"`    // why it is not used
}

// importance adds what the importance matrix says, where one lies beside the checkpoint by the name that llama-imatrix gives it.
func (r *StoredMatrices) importance(b *Bench, parts []checkpoint.Part) {
	for _, name := range []string{"imatrix.gguf", "imatrix.dat"} {
		name = path.Join(path.Dir(b.project().Model), name)
		file, ok := b.store().Path(name)
		if !ok {
			continue
		}
		m, err := checkpoint.ReadImportance(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for i := 0; err == nil && i < len(parts); i++ {
			var energies []float64
			if energies, err = m.Means(parts[i], r.Matrices[i].Cols); energies != nil {
				energy, focus := concentration(energies)
				r.Matrices[i].Energy, r.Matrices[i].Focus = &energy, &focus
				r.Imatrix = name
			}
		}
		if err != nil {
			r.Note = err.Error()
		}
		return
	}
}

// concentration is the mean of energies, and the share of the strongest hundredth of them.
func concentration(energies []float64) (mean, focus float64) {
	list := slices.Clone(energies)
	slices.SortFunc(list, func(a, b float64) int { return cmp.Compare(b, a) })
	for i, e := range list {
		if mean += e; i <= (len(list)-1)/100 {
			focus += e
		}
	}
	if mean > 0 {
		focus /= mean
	}
	return mean / float64(len(list)), focus
}

// matrices lists the matrices of the checkpoint that is open; no weight is read.
func (b *Bench) matrices(context.Context, struct{}) (*StoredMatrices, error) {
	file, ok := b.store().Path(b.project().Model)
	if !ok || !b.language(b.project().Model) {
		return nil, qwb.Usagef("no language model is open")
	}
	m, err := qwb.OpenCheckpoint(file)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r := &StoredMatrices{Matrices: []StoredMatrix{}}
	var parts []checkpoint.Part
	for _, t := range m.Tensors() {
		if t.Role.Float() {
			continue
		}
		s := StoredMatrix{Node: t.Part.String(), Op: t.Role.String(), Layer: t.Layer, Name: t.Name, Rows: t.Rows, Cols: t.Cols,
			Type: t.Storage(), Bytes: t.Stored()}
		s.Bits = 8 * float64(s.Bytes) / float64(t.Len())
		r.Matrices, parts = append(r.Matrices, s), append(parts, t.Part)
	}
	r.importance(b, parts)
	return r, nil
}

type languageRank struct{ options.Analyze }

func (o *languageRank) line(b *Bench, t options.Table) (string, error) {
	o.Layerwise = true
	_, err := o.Language()
	return b.languageLine("analyze", err, t)
}

func (o *languageRank) run(ctx context.Context, b *Bench, p *qwb.Project) (*language.Layers, []tqc.Warning, error) {
	t, err := o.Language()
	if err != nil {
		return nil, nil, err
	}
	t.Threads = b.o.Threads
	return p.AnalyzeText(ctx, t)
}

type languageEval struct{ options.Eval }

func (o *languageEval) line(b *Bench, t options.Table) (string, error) {
	_, err := o.Language(true)
	return b.languageLine("eval", err, t)
}

func (o *languageEval) run(ctx context.Context, b *Bench, p *qwb.Project) (*language.Result, []tqc.Warning, error) {
	t, err := o.Language(true)
	if err != nil {
		return nil, nil, err
	}
	t.Threads, t.Tokens = b.o.Threads, qwb.ListedTokens
	return p.EvalText(ctx, t)
}

type languageGenerate struct{ options.Generate }

func (o *languageGenerate) line(b *Bench, t options.Table) (string, error) {
	return b.languageLine("generate", o.Check(), t)
}

// Continuation is a text that a model continued.
type Continuation struct {
	Text    string   `json:"text"`
	Tokens  []string `json:"tokens"` // all pieces of it, the prompt's included
	Rate    float64  `json:"tokens_per_second"`
	Seconds float64  `json:"seconds"`
}

// TwoTexts are the continuations of a prompt in float and quantized.
type TwoTexts struct {
	Float     Continuation `json:"float"`
	Quantized Continuation `json:"quantized"`
	Prompt    int          `json:"prompt"` // tokens of the prompt
	// Differs is the first token that is another one, -1 where there is none.
	Differs int `json:"first_difference"`
}

// pieces collects what is streamed: each write is a piece.
type pieces struct {
	list []string
	done func(int)
}

func (p *pieces) Write(b []byte) (int, error) {
	p.list = append(p.list, string(b))
	p.done(len(p.list))
	return len(b), nil
}

// generatedTokens is how many positions are run unless told otherwise: enough to see where two texts part.
const generatedTokens = 128

func (o *languageGenerate) run(ctx context.Context, b *Bench, p *qwb.Project) (*TwoTexts, []tqc.Warning, error) {
	if o.Tokens == 0 {
		o.Tokens = generatedTokens
	}
	o.Threads = b.o.Threads
	var warnings []tqc.Warning
	var r TwoTexts
	one := func(what string, l qwb.LanguageOptions) (Continuation, error) {
		done, end := p.Events.Progress(what, o.Tokens)
		defer end()
		s := &pieces{done: done}
		g := qwb.GenerateOptions{LanguageOptions: l, Sampling: o.Sampling, Prompt: o.Prompt, Tokens: o.Tokens, Own: true, Stream: s}
		x, w, err := p.Generate(ctx, g)
		if warnings = append(warnings, w...); err != nil {
			return Continuation{}, err
		}
		r.Prompt = x.Prompt - 1                                                     // the token that begins a text is no piece of it
		return Continuation{x.Text, s.list[:len(s.list)-1], x.Rate, x.Seconds}, nil // the last is the end of the line
	}
	var err error
	if r.Float, err = one("float", qwb.LanguageOptions{Tokenizer: o.Tokenizer, Mode: qwb.ModeFloat, Threads: b.o.Threads}); err != nil {
		return nil, warnings, err
	}
	if r.Quantized, err = one("quantized", o.LanguageOptions); err != nil {
		return nil, warnings, err
	}
	r.Differs = -1
	for i := range max(len(r.Float.Tokens), len(r.Quantized.Tokens)) {
		if i >= len(r.Float.Tokens) || i >= len(r.Quantized.Tokens) || r.Float.Tokens[i] != r.Quantized.Tokens[i] {
			r.Differs = i
			break
		}
	}
	return &r, warnings, nil
}
