package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"qwb/internal/plain"
)

// Card is what is known of an export, for what lies beside its files: a model card, and a bill of materials.
type Card struct {
	Tool      string // name of what wrote the files
	Version   string
	Base      string // the float model: its name on a hub, else its file's
	Model     CardFile
	Files     []CardFile // of the export, the named one first
	Plan      string     // SHA-256 of what it decides
	Platform  string
	Engine    string // that the platform is for, with its version where it was compared; may be empty
	Format    string
	Profile   string // of the integers
	Data      CardData
	Share     *float64 // of multiply-accumulates on integers, 0 to 1; nil where nobody knows
	Verified  string   // how, in words
	Decisions []string
	Inputs    []string // type and shape of each
	Outputs   []string
	Outcomes  []CardOutcome
	Warnings  []string
}

// CardFile is a file by its content. Bytes is its size.
type CardFile struct {
	Name   string
	SHA256 string
	Bytes  int64
}

// CardData are the samples that the model was calibrated on.
type CardData struct {
	Paths      []string
	SHA256     string
	Samples    int
	Synthetic  bool
	Preprocess string
}

// CardOutcome is what a command found about the plan: of which data, in words, and every figure.
type CardOutcome struct {
	Command string
	Data    string // empty: the plan's own
	Text    string
	Figures []CardFigure
}

// CardFigure is a number, with its standard error where it has one.
type CardFigure struct {
	Name  string
	Value float64
	Error *float64
}

// CardMarkdown writes a model card: front matter as hubs of models read it, figures, and what would make the files again.
func CardMarkdown(w io.Writer, c *Card) error {
	t := &tables{w: w}
	t.printf("---\nbase_model: %s\nbase_model_relation: quantized\nquantized_by: %s\ntags:\n", yamlText(c.Base), yamlText(c.Tool))
	for _, tag := range []string{"int8", "quantized", c.Format, c.Platform} {
		t.printf("  - %s\n", yamlText(tag))
	}
	t.printf("---\n\n# %s\n\n%s, quantized by %s %s for %s%s.\n", markdown(c.Files[0].Name), markdown(c.Base), c.Tool, c.Version, c.Platform,
		engineOfCard(c.Engine))
	if share := IntegerShare(c.Share); share != "" {
		t.printf("%s. ", strings.ToUpper(share[:1])+share[1:])
	}
	t.printf("%s\n\n## Files\n\n| file | bytes | SHA-256 |\n|---|---:|---|\n", c.Verified)
	for _, f := range c.Files {
		t.printf("| %s | %d | `%s` |\n", markdown(f.Name), f.Bytes, f.SHA256)
	}
	t.printf("| float: %s | %d | `%s` |\n\n## Measured\n\n", markdown(c.Model.Name), c.Model.Bytes, c.Model.SHA256)
	if len(c.Outcomes) == 0 {
		t.printf("Nothing was measured of this plan before it was exported.\n")
	} else {
		t.printf("Of the plan behind the files, by its simulation. Errors are standard errors over the samples.\n\n" +
			"| command | data | found |\n|---|---|---|\n")
	}
	for _, o := range c.Outcomes {
		t.printf("| qwb %s | %s | %s |\n", o.Command, markdown(cmp.Or(o.Data, "the plan's own")), markdown(o.Text))
	}
	t.printf("\n## Made from\n\n- Calibration: %s, SHA-256 `%s`\n", c.Data.words(), c.Data.SHA256)
	if c.Data.Preprocess != "" {
		t.printf("- Preprocessing: `%s`\n", strings.ReplaceAll(c.Data.Preprocess, "`", "'"))
	}
	for _, d := range c.Decisions {
		t.printf("- Decision: %s\n", markdown(d))
	}
	t.printf("- Plan: SHA-256 `%s`\n", c.Plan)
	for i, line := range c.Warnings {
		if i == 0 {
			t.printf("\n## Warnings\n\n")
		}
		t.printf("- %s\n", markdown(line))
	}
	t.printf("\n## Made again\n\n```\nqwb export %s --platform %s --format %s -o %s\nqwb doctor %s --platform %s --format %s\n```\n",
		shellWord("MODEL.plan.json"), c.Platform, c.Format, shellWord(c.Files[0].Name), shellWord(c.Files[0].Name), c.Platform, c.Format)
	return t.err
}

func engineOfCard(engine string) string {
	if engine == "" {
		return ""
	}
	return " (" + engine + ")"
}

func (d *CardData) words() string {
	names := make([]string, len(d.Paths))
	for i, p := range d.Paths {
		names[i] = markdown(filepath.ToSlash(p))
	}
	text := plain.Count(d.Samples, "sample") + " of " + strings.Join(names, ", ")
	if d.Synthetic {
		text += ", made up at least in part"
	}
	return text
}

// yamlText is a text as YAML reads it back: JSON's form is one of YAML's.
func yamlText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// markdown is a text that is no markup of Markdown or HTML, on one line.
func markdown(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'", "[", `\[`, "*", `\*`, "_", `\_`).Replace(plain.Text(s))
}

// shellWord is a word of a command line.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune("-_./", r) && !isWord(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// MLBOM writes the bill of materials of an export: CycloneDX 1.6 with a component machine-learning-model, its model card, the float model
// that it was made from, and the data.
func MLBOM(w io.Writer, c *Card) error {
	model := BOMComponent{Type: "machine-learning-model", Ref: "export", Name: c.Files[0].Name, Hashes: sha256Of(c.Files[0].SHA256),
		ModelCard: &bomModelCard{}}
	base := BOMComponent{Type: "machine-learning-model", Ref: "float", Name: c.Base, Hashes: sha256Of(c.Model.SHA256)}
	model.Pedigree = &bomPedigree{Ancestors: []BOMComponent{{Type: base.Type, Name: base.Name, Hashes: base.Hashes}},
		Notes: fmt.Sprintf("quantized by %s %s for %s: %s", c.Tool, c.Version, c.Platform, strings.Join(c.Decisions, "; "))}
	card := model.ModelCard
	card.Parameters.Datasets = []bomRef{{Ref: "calibration"}}
	for _, x := range c.Inputs {
		card.Parameters.Inputs = append(card.Parameters.Inputs, bomFormat{x})
	}
	for _, x := range c.Outputs {
		card.Parameters.Outputs = append(card.Parameters.Outputs, bomFormat{x})
	}
	for _, o := range c.Outcomes {
		for _, f := range o.Figures {
			card.Analysis.Metrics = append(card.Analysis.Metrics, bomMetricOf(&o, &f))
		}
	}
	model.property("platform", c.Platform)
	model.property("format", c.Format)
	model.property("profile", c.Profile)
	model.property("plan:sha256", c.Plan)
	model.property("verification", c.Verified)
	if c.Share != nil {
		model.property("integer share", Number(*c.Share))
	}
	data := BOMComponent{Type: "data", Ref: "calibration", Name: strings.Join(c.Data.Paths, ", "),
		Data: []bomData{{Type: "dataset", Name: c.Data.words()}}}
	data.property("samples", fmt.Sprint(c.Data.Samples))
	data.property("sha256 of all samples", c.Data.SHA256)
	data.property("preprocessing", c.Data.Preprocess)
	b := BOM{Component: model, Tool: BOMComponent{Type: "application", Name: c.Tool, Version: c.Version}, Components: []BOMComponent{base}}
	for _, f := range c.Files[1:] {
		b.Components = append(b.Components, BOMComponent{Type: "file", Ref: "file " + f.Name, Name: f.Name, Hashes: sha256Of(f.SHA256)})
	}
	b.Components = append(b.Components, data)
	return b.Write(w)
}

// bomMetricOf is a figure as CycloneDX has them. The interval is of 95 %.
func bomMetricOf(o *CardOutcome, f *CardFigure) bomMetric {
	m := bomMetric{Type: o.Command + ": " + f.Name, Value: Number(f.Value), Slice: cmp.Or(o.Data, "calibration data")}
	if f.Error != nil {
		m.Interval = &bomInterval{Number(f.Value - 1.96**f.Error), Number(f.Value + 1.96**f.Error)}
	}
	return m
}
