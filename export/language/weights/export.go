package weights

import (
	"context"
	"fmt"
	"io"

	"qwb/export"
	"qwb/quantizer/tqc"
)

// The options of all formats of checkpoints.
var (
	Group = export.Option{Name: "group-size", Kind: export.Whole,
		Doc: "how many weights in a row share a scale (0: the format's choice; where that is free 64, halved until it divides every row)"}
	Scales = export.Option{Name: "scales", Kind: export.Choice, Choices: []string{Nearest, Search},
		Doc: Nearest + ", the scale of the largest weight of a group, or " + Search + ", the one with the smallest squared error"}
)

// The choices of Scales.
const (
	Nearest = "rtn"
	Search  = "mse"
)

// Matrices is the option of how matrices are written, the default first.
func Matrices(forms ...string) export.Option {
	return export.Option{Name: "weights", Kind: export.Choice, Choices: forms, Doc: "how matrices are written"}
}

// Export returns the format as package export has it.
func (f Format) Export() export.Format {
	out := export.Format{Name: f.Name, Doc: f.Title, Note: f.Note, Experimental: f.Experimental, Ext: "." + f.Name + f.Suffix, From: export.Checkpoint,
		Options: []export.Option{Group, Scales}, Tokens: f.Tokenizer}
	if len(f.Matrices) > 0 {
		out.Options = append(out.Options, Matrices(f.Matrices...))
	}
	out.Check = func(in *export.Input) error {
		_, err := f.layout(in)
		return err
	}
	out.Write = f.write
	out.Back = f.back
	return out
}

// layout is Layout with the options of in; the result stays with in.
func (f Format) layout(in *export.Input) (*File, error) {
	if file, ok := in.State.(*File); ok {
		return file, nil
	}
	file, err := f.Layout(in.Checkpoint, Options{Group: int(in.Options.Whole(Group.Name)), Matrices: in.Options.Text("weights"),
		Search: in.Options.Text(Scales.Name) == Search, Tokenizer: in.Tokens})
	if err != nil {
		return nil, err
	}
	in.State = file
	return file, nil
}

func (f Format) write(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	file, err := f.layout(in)
	if err != nil {
		return nil, err
	}
	done, end := in.Progress("weights written", int(file.Elements()))
	defer end()
	err = out.Write(out.Name(), func(w io.Writer) error {
		return file.Write(ctx, w, Run{Threads: in.Threads, Progress: func(n int64) { done(int(n)) }})
	})
	return file.Warnings, err
}

func (f Format) back(ctx context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	file, err := f.layout(in)
	if err != nil {
		return nil, err
	}
	m, err := f.Open(out.Staged(out.Name()), &file.Config)
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
