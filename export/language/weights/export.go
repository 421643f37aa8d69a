package weights

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"qwb/export"
	"qwb/graph/language/checkpoint"
	"qwb/quantizer/tqc"
)

// The options of all formats of checkpoints.
var (
	Group = export.Option{Name: "group-size", Kind: export.Whole,
		Doc: "how many consecutive weights share one scale (0: as the format prescribes; if it does not, 64 halved until it divides every row)"}
	Fallback = export.Option{Name: "group-fallback", Kind: export.Choice, Optional: true, Choices: Fallbacks,
		Doc: FallbackDoc + " (default: as the format has it)"}
	Method = export.Option{Name: "method", Kind: export.Choice, Choices: Methods, Doc: "how to choose scales: " + MethodDoc}
	Fit    = export.Option{Name: "fit", Kind: export.Text, Doc: FitDoc}
	Tokens = export.Option{Name: "fit-tokens", Kind: export.Whole,
		Doc: "how many tokens of --fit are taken, in whole lines (0: 16384)"}
	// Imatrix and ImatrixOut are importance matrices of llama.cpp.
	Imatrix = export.Option{Name: "imatrix", Kind: export.Text,
		Doc: "importance matrix of llama.cpp (GGUF or its older binary form) for --method " + Importance + ", in place of --fit"}
	ImatrixOut = export.Option{Name: "imatrix-out", Kind: export.Text,
		Doc: "write the importance matrix of the float model on --fit to this file, as llama-imatrix does"}
	// Bits is for formats whose matrices may have different types.
	Bits = export.Option{Name: "bpw", Kind: export.Text,
		Doc: "bits per weight of the file's tensors, at most: each matrix gets the type that keeps the model nearest to float on --fit"}
	Requantize = export.Option{Name: "requantize", Kind: export.Choice, Choices: []string{"no", "yes"},
		Doc: "quantize once more what is quantized already and the format does not hold without loss; the error of each tensor is told"}
	Judge = export.Option{Name: "judge", Kind: export.Text, Doc: "text file for --method " + Judged + ", one sequence per line"}
)

// Matrices is the option of how matrices are written, the default first.
func Matrices(forms ...string) export.Option {
	return export.Option{Name: "weights", Kind: export.Choice, Choices: forms, Doc: "number format of the matrices"}
}

// Export returns the format as package export has it.
func (f Format) Export() export.Format {
	out := export.Format{Name: f.Name, Doc: f.Title, Note: f.Note, Ext: "." + f.Name + f.Suffix,
		From:    export.Checkpoint,
		Options: []export.Option{Group, Fallback, Method, Judge, Fit, Tokens, Imatrix, ImatrixOut, Requantize}, Tokens: f.Tokenizer}
	if f.Folder != "" {
		out.Ext = ""
	}
	if len(f.Matrices) > 0 {
		out.Options = append(out.Options, Matrices(f.Matrices...))
	}
	if len(f.Types) > 0 {
		out.Options = append(out.Options, Bits)
	}
	out.Check = func(in *export.Input) error {
		_, err := f.layout(in)
		return err
	}
	out.Groups = f.groups
	out.Write = f.write
	out.Back = f.back
	return out
}

// layout is Layout with the options of in; the result stays with in.
func (f Format) layout(in *export.Input) (*File, error) {
	if file, ok := in.State.(*File); ok {
		file.search(in)
		return file, nil
	}
	had := in.Checkpoint
	if f.NormEps != 0 {
		if m, err := had.WithEpsilon(f.NormEps); err == nil {
			in.Checkpoint = m
		} else if !f.AnyEps {
			return nil, fmt.Errorf("export: %s cannot hold an epsilon of the norms of %g, only %g: %w", f.Title, had.NormEps, f.NormEps, err)
		}
	}
	file, err := f.Layout(in.Checkpoint, Options{Group: int(in.Options.Whole(Group.Name)), Fallback: in.Options.Text(Fallback.Name),
		Matrices: in.Options.Text("weights"), Search: WayOf(in.Options.Text(Method.Name)).Search, Tokenizer: in.Tokens,
		Types: in.Types, Usual: usual(in.Checkpoint)})
	if err != nil {
		return nil, err
	}
	if in.Checkpoint != had {
		file.Warn(fmt.Sprintf("the engine has an epsilon of the norms of %g, the model %g: embedding, output of attention and down are "+
			"multiplied by the square root of their quotient, which changes no logits", f.NormEps, had.NormEps), 0)
	}
	if err := file.Convert(in.Options.Text(Requantize.Name) == "yes"); err != nil {
		return nil, err
	}
	in.State, file.Types = file, f.Types
	file.search(in)
	return file, nil
}

// usual is the smallest group of a source's integers; 0 where there are none.
func usual(m *checkpoint.Model) (size int) {
	for _, t := range m.Tensors() {
		if n := t.Step(); n > 0 && (size == 0 || n < size) {
			size = n
		}
	}
	return size
}

// search leaves the search for scales to the matrices that were judged to gain by it.
func (f *File) search(in *export.Input) {
	for i := range f.Items {
		if it := &f.Items[i]; it.Tensor != nil && it.Encoding.Search {
			it.Encoding.Search = in.Searches(it.Tensor.Role.String())
		}
	}
}

// groups says how float matrices are quantized: in groups of size, to so many bits; 0 where they are not.
func (f Format) groups(in *export.Input) (size, bits int, err error) {
	file, err := f.layout(in)
	if err != nil {
		return 0, 0, err
	}
	for i := range file.Items {
		if it := &file.Items[i]; it.Tensor != nil && it.Encoding.Quantized() && !it.Tensor.Quantized() {
			if it.Encoding.Type.Form() != nil {
				return 0, 0, fmt.Errorf("export: --%s %s: not for blocks of %s, whose scales are no groups of codes", Method.Name, Judged,
					it.Encoding.Type)
			}
			if s := it.Encoding.Scheme; s != nil {
				return it.Encoding.group(), s.Bits, nil
			}
			return it.Encoding.group(), it.Encoding.blockRule().Bits, nil
		}
	}
	return 0, 0, nil
}

func (f Format) write(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	file, err := f.layout(in)
	if err != nil {
		return nil, err
	}
	done, end := in.Progress("weights written", int(file.Elements()))
	defer end()
	err = out.Write(cmp.Or(f.Folder, out.Name()), func(w io.Writer) error {
		return file.Write(ctx, w, Run{Threads: in.Threads, Progress: func(n int64) { done(int(n)) }})
	})
	if err == nil && f.Beside != nil {
		err = f.Beside(file, out)
	}
	if err == nil && f.Shape {
		err = file.writeShape(out)
	}
	return file.Warnings, err
}

// writeShape writes the config.json that the file is opened with. A shape that config.json has no place for gets none: a warning.
func (f *File) writeShape(out *export.Output) error {
	b, err := checkpoint.ShapeJSON(&f.Config)
	if err != nil {
		f.Warn("no config.json is written beside the file: "+err.Error(), 0)
		return nil
	}
	name := strings.TrimSuffix(out.Name(), filepath.Ext(out.Name())) + checkpoint.ShapeSuffix
	return out.Write(name, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

func (f Format) back(ctx context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	file, err := f.layout(in)
	if err != nil {
		return nil, err
	}
	at := out.Staged(out.Name())
	if f.Folder != "" {
		at = out.Folder()
	}
	m, err := f.Open(at, &file.Config)
	if err != nil {
		return nil, fmt.Errorf("export: what was written cannot be read: %w", err)
	}
	done, end := in.Progress("weights compared", int(file.Elements()))
	defer end()
	r := &export.Readback{Model: m, Unlike: file.Unlike, Close: m.Close}
	r.Comparison, err = file.Compare(ctx, m, Run{Threads: in.Threads, Progress: func(n int64) { done(int(n)) }})
	if err != nil {
		m.Close()
		return nil, err
	}
	return r, nil
}
