package options

import (
	"fmt"
	"slices"
	"strings"

	"qwb"
	"qwb/export"
)

// Export are the options of export. Those of formats are options of the command too.
type Export struct {
	qwb.ExportOptions
	List  bool
	given []*formatOption
	JSON  bool
}

func (o *Export) Table(c *qwb.Catalog) Table {
	t := slices.Concat(
		Platform(c, &o.Platform, "platform of the plan, by which one of several is found (default: its own; another is refused): "+
			words(Platforms(c))),
		Table{
			{Name: "format", At: &o.Format, Job: true, Field: &Field{Label: "Format", Type: "select", List: "formats"},
				Values: func() []string { return formats(c) },
				Help:   "file format, one of those above (default: that of the plan's platform, else " + append(formats(c), "none")[0] + ")"},
			{Name: "output", Short: "o", At: &o.Out, Job: true, Field: &Field{Label: "File"},
				Help: "file or folder to write, depending on the format (default: MODEL.PLATFORM.onnx, MODEL.c, CHECKPOINT.FORMAT.bin)"},
			{Name: "unverified", At: &o.Unverified, Job: true, Field: &Field{Label: "Export without verification (marked in the file)"},
				Help: "export without verification; plan and file say so"},
			{Name: "samples", At: &o.Samples, Help: "samples of the plan's data to verify on (default: 8)"},
			{Name: "card", See: "certificate.md", At: &o.Beside.Card,
				Help: "write a model card beside the export, for example README.md: what was quantized, how, what was measured, hashes"},
			{Name: "ml-bom", See: "certificate.md", At: &o.Beside.MLBOM,
				Help: "write the bill of materials of the export beside it: CycloneDX 1.6, JSON"},
			{Name: "base-model", See: "certificate.md", At: &o.Beside.Base,
				Help: "`NAME` of the float model on a hub, for --card and --ml-bom (default: the name of its file)"},
			{Name: "formats", At: &o.List, Help: "list the formats and their options, write nothing"},
		},
		Backend(c, &o.Backend, "backend of the verification: "), Threads(&o.Threads), Bound(), JSON(&o.JSON))
	o.given = nil
	for _, option := range formatOptions(c.Formats) {
		row, start := optionOfFormats(option.Name, c.Formats)
		value := &formatOption{option: option, text: start}
		o.given, row.At = append(o.given, value), value
		t = append(t, row)
	}
	return t
}

// Given are the options of formats that were given, by name.
func (o *Export) Given() map[string]string {
	given := map[string]string{}
	for _, v := range o.given {
		if v.set {
			given[v.option.Name] = v.text
		}
	}
	return given
}

// formatOption is a value that is validated when the format is known, for formats may differ in choices.
type formatOption struct {
	option export.Option
	text   string
	set    bool
}

func (v *formatOption) String() string        { return v.text }
func (v *formatOption) Set(text string) error { v.text, v.set = text, true; return nil }
func (v *formatOption) Check(string) error    { return nil }

func (v *formatOption) Type() string {
	switch v.option.Kind {
	case export.Whole:
		return "int"
	case export.Sizes:
		return "NAME=SIZE,..."
	}
	return "string"
}

// formatOptions lists the options of all formats, each name once, in the order in which they first occur.
func formatOptions(formats []export.Format) (list []export.Option) {
	for i := range formats {
		for _, o := range formats[i].AllOptions() {
			if !slices.ContainsFunc(list, func(p export.Option) bool { return p.Name == o.Name }) {
				list = append(list, o)
			}
		}
	}
	return list
}

// optionOfFormats is the row of an option: what it is, of which formats, and the choices where formats differ in them. start is the value
// where none is given, if that is the same for all formats.
func optionOfFormats(name string, formats []export.Format) (row Option, start string) {
	var of, checkpoints, choices, starts, values []string
	var kind export.Kind
	doc, same := "", true
	row = Option{Name: name, For: Checkpoints}
	for i := range formats {
		if formats[i].From == export.Checkpoint {
			checkpoints = append(checkpoints, formats[i].Name)
		}
		for _, o := range formats[i].AllOptions() {
			if o.Name != name {
				continue
			}
			kind, doc, starts, values = o.Kind, o.Doc, append(starts, o.Start()), append(values, o.Choices...)
			if formats[i].From != export.Checkpoint {
				row.For = Any
			}
			if !slices.Contains(of, formats[i].Name) {
				of = append(of, formats[i].Name)
			}
			if o.Kind == export.Choice && len(o.Choices) > 1 {
				text := words(o.Choices)
				same = same && (len(choices) == 0 || strings.HasSuffix(choices[0], ": "+text))
				choices = append(choices, formats[i].Name+": "+text)
			}
		}
	}
	row.Help = fmt.Sprintf("for %s: %s", words(of), doc)
	if slices.Equal(of, checkpoints) {
		row.Help = doc
	}
	switch {
	case len(choices) > 0 && same:
		_, list, _ := strings.Cut(choices[0], ": ")
		row.Help += " (" + list + ")"
	case len(choices) > 0:
		row.Help += " (" + strings.Join(choices, "; ") + ")"
	}
	if len(values) > 0 || kind != export.Text { // a text may be a file
		row.Values = fixed(values...)
	}
	if slices.Sort(starts); starts[0] == starts[len(starts)-1] {
		start = starts[0]
	}
	return row, start
}

// Bind are the options of bind.
type Bind struct {
	qwb.BindOptions
	JSON bool
}

func (o *Bind) Table(*qwb.Catalog) Table {
	return slices.Concat(
		Table{
			{Name: "input", At: &o.Inputs, Help: "`NAME=NUMBER` or NAME=FILE.npy: replace the input by this constant; may be repeated"},
			{Name: "shape", At: &o.Shapes, Help: "`NAME=SIZE,SIZE...`: fix the shape of this input; may be repeated"},
			{Name: "dim", At: &o.Dims, Help: "`SYMBOL=SIZE`: fix the size of this dynamic dimension; may be repeated"},
			{Name: "float32", At: &o.Float32, Help: "make inputs, outputs and operators of float16, bfloat16 and float64 float32"},
		},
		Output(&o.Out, "file to write"), JSON(&o.JSON))
}

// Check holds the options against each other.
func (o *Bind) Check() error {
	if o.Out == "" || len(o.Inputs)+len(o.Shapes)+len(o.Dims) == 0 && !o.Float32 {
		return qwb.Usagef("bind needs --input NAME=VALUE, --shape NAME=SIZES, --dim SYMBOL=SIZE or --float32, and -o FILE")
	}
	return nil
}
