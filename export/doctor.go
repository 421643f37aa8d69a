package export

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"qwb/graph/onnx"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Rule is one thing that the reader of a format insists on.
type Rule struct {
	Name string `json:"name"`
	Doc  string `json:"doc"` // half a sentence: what holds in a good file
	Fix  string `json:"fix"` // half a sentence: what to do about a file in which it does not
}

// Finding is one violation of a rule.
type Finding struct {
	Rule string `json:"rule"`
	Node string `json:"node"` // or tensor; empty: the whole file
	Text string `json:"text"`
	Fix  string `json:"fix"` // empty: that of the rule
}

func (f Finding) String() string {
	if f.Node == "" {
		return fmt.Sprintf("%s: %s", f.Rule, f.Text)
	}
	return fmt.Sprintf("%s: node %q: %s", f.Rule, f.Node, f.Text)
}

// DoctorInput is a file of a format.
type DoctorInput struct {
	FS   fs.FS  // the folder of the file; of a format that writes a folder that one
	Name string // of the file in FS; of a folder "."
	Path string // of the file in the operating system; empty where it knows none
	// Target is the platform that the file is for.
	Target *target.Target
	// Integer says of which nodes, by name, the plan wants that they run on integers; nil: no plan is at hand.
	Integer func(node string) bool
	streams bool // see Input
}

// Bytes is the content of the file.
func (in *DoctorInput) Bytes() ([]byte, error) { return fs.ReadFile(in.FS, in.Name) }

// Model reads the file as an ONNX model, which has to be closed.
func (in *DoctorInput) Model() (*onnx.Model, error) {
	m, err := in.model()
	if err == nil {
		m.Graph = onnx.Linears(m.Graph)
	}
	return m, err
}

func (in *DoctorInput) model() (m *onnx.Model, err error) {
	if in.Path != "" {
		return openModel(in.Path, in.streams)
	}
	b, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	m, _, err = onnx.Parse(b, onnx.FSResolver(in.FS))
	return m, err
}

// Diagnose calls Doctor and completes what it found: a finding without a fix gets that of its rule.
func (f *Format) Diagnose(ctx context.Context, in *DoctorInput) ([]Finding, error) {
	if f.Doctor == nil {
		return nil, fmt.Errorf("format %s has no doctor", f.Name)
	}
	list, err := f.Doctor(ctx, in)
	for i := range list {
		for _, r := range f.Rules {
			if list[i].Fix == "" && r.Name == list[i].Rule {
				list[i].Fix = r.Fix
			}
		}
	}
	return list, err
}

// AsWhole is what a file is as a whole.
type AsWhole struct {
	// Narrow: something in it is quantized, or of 16 bits where a float model has 32.
	Narrow bool
	// Bits are those of the quantized tensors between operators, each width once; nil: there are none, or it is not known.
	Bits []int
	// Platform is the one that qwb wrote the file for; empty: another tool wrote it.
	Platform string
	// Exact: a file for one platform is wrong for every other one.
	Exact bool
	// Format is the one that the file has, by name, where that is another one that readers of the platform take too.
	Format string
}

// WholeRules are what Suits looks for, in words.
var WholeRules = []Rule{
	{Name: "quantized", Doc: "something in the file is quantized",
		Fix: "calibrate a plan of the model and export that, or take the file as the float model that it is"},
	{Name: "platform", Doc: "the file was written for the platform, with integers of its width between operators",
		Fix: "name the platform that the file is for, or export it again for this one"},
}

// Suits says what is wrong with a file as a whole for whoever wants it to run quantized on a platform. What Doctor finds is not repeated.
func (w *AsWhole) Suits(t *target.Target) []Finding {
	var list []Finding
	add := func(k int, format string, a ...any) {
		list = append(list, Finding{Rule: WholeRules[k].Name, Text: fmt.Sprintf(format, a...), Fix: WholeRules[k].Fix})
	}
	want := t.Defaults().Activation[0].Bits
	other := w.Platform != "" && w.Platform != t.Name
	switch {
	case !w.Narrow:
		add(0, "nothing in this file is quantized: it runs in float")
	case w.Exact && other:
		add(1, "it was written for %s, and a file for one chip is wrong on another", w.Platform)
	case w.Platform != t.Name && len(w.Bits) > 0 && !slices.Contains(w.Bits, want):
		by := ""
		if other {
			by = ", and was written for " + w.Platform
		}
		add(1, "it has integers of %d bits between operators%s; those of %s have %d", w.Bits[0], by, t.Name, want)
	}
	return list
}

// Conforms reads back what was written to out and refuses it where Doctor finds something. A format without Doctor is not read.
func (f *Format) Conforms(ctx context.Context, in *Input, out *Output) error {
	if f.Doctor == nil {
		return nil
	}
	d := &DoctorInput{FS: out.FS(), Name: out.Name(), Path: out.Staged(out.Name()), Target: in.Target, streams: in.streams()}
	if d.Name == "" {
		d.Name = "."
	}
	if in.Model != nil && in.Set != nil {
		d.Integer = func(node string) bool {
			id, ok := in.Model.Graph.LookupNode(node)
			return ok && in.Set.Domains[id] == tqc.DomainInt
		}
	}
	findings, err := f.Diagnose(ctx, d)
	switch {
	case err != nil:
		return fmt.Errorf("export: what was written cannot be read: %w", err)
	case len(findings) == 0:
		return nil
	}
	lines := make([]string, 0, len(findings))
	for i, f := range findings {
		if i == 5 {
			lines = append(lines, fmt.Sprintf("and %d more", len(findings)-i))
			break
		}
		lines = append(lines, f.String())
	}
	what := in.Target.Name
	if f.Name != "onnx" {
		what = f.Name + " for " + what
	}
	return fmt.Errorf("export: the file would break rules of %s, nothing was written: %s", what, strings.Join(lines, "; "))
}

// written is an Output as a file system, for reading it back before the files have their names. It has no folders in memory.
type written struct{ *Output }

func (w written) Open(name string) (fs.File, error) {
	s := w.file(name)
	switch {
	case w.Folder() != "":
		return os.DirFS(w.Folder()).Open(name)
	case s == nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memoryFile{bytes.NewReader(s.memory.Bytes()), s}, nil
}

// ReadFile gives what is in memory as it is: nobody may change it.
func (w written) ReadFile(name string) ([]byte, error) {
	if s := w.file(name); s != nil && w.Folder() == "" {
		return s.memory.Bytes(), nil
	}
	return fs.ReadFile(os.DirFS(w.Folder()), name)
}

// memoryFile is an open file that is none of the operating system.
type memoryFile struct {
	*bytes.Reader
	*staged
}

func (f *memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *memoryFile) Close() error               { return nil }
func (f *memoryFile) Name() string               { return path.Base(f.name) }
func (f *memoryFile) Mode() fs.FileMode          { return 0o644 }
func (f *memoryFile) ModTime() time.Time         { return time.Time{} }
func (f *memoryFile) IsDir() bool                { return false }
func (f *memoryFile) Sys() any                   { return nil }
