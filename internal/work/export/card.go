package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/reports"
)

// Beside are files that tell people and other tools what an export is. They appear with it or not at all; empty: none.
type Beside struct {
	Card  string // model card: Markdown with front matter
	MLBOM string // bill of materials: CycloneDX
	Base  string // name of the float model on a hub of models; empty: that of its file
}

// places are the files that are asked for, by the name that export.Output has for them: they lie in the folder of the export.
func (b *Beside) places(home string) (card, bom string, err error) {
	for _, f := range []struct {
		flag, file string
		name       *string
	}{{"card", b.Card, &card}, {"ml-bom", b.MLBOM, &bom}} {
		if f.file == "" {
			continue
		}
		at, err := filepath.Rel(home, f.file)
		if err != nil || !filepath.IsLocal(at) || at == "." {
			return "", "", fault.Usagef("--%s %s: it has to lie where the export lies: %s", f.flag, f.file,
				filepath.Join(home, filepath.Base(f.file)))
		}
		*f.name = filepath.ToSlash(at)
	}
	if b.Base != "" && card == "" && bom == "" {
		return "", "", fault.Usagef("--base-model needs --card or --ml-bom")
	}
	return card, bom, nil
}

// home is the folder that an export lies in.
func home(f *export.Format, out string) string {
	if f.Ext == "" {
		return out
	}
	return filepath.Dir(out)
}

// writeBeside writes what is asked for about an export whose files are whole.
func writeBeside(j *open.Job, b *Beside, f *export.Format, in *export.Input, p *planning.Planned, out *export.Output, r *Result) error {
	card, bom, err := b.places(home(f, r.File))
	if err != nil || card == "" && bom == "" {
		return err
	}
	c, err := cardOf(j, b, in, p, out, r)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer, *reports.Card) error
	}{{card, reports.CardMarkdown}, {bom, reports.MLBOM}} {
		if file.name == "" {
			continue
		}
		if err := out.Write(file.name, func(w io.Writer) error { return file.write(w, c) }); err != nil {
			return err
		}
	}
	return nil
}

// cardOf is all that is known of an export before its files have their names.
func cardOf(j *open.Job, b *Beside, in *export.Input, p *planning.Planned, out *export.Output, r *Result) (*reports.Card, error) {
	e := target.EngineOf(p.Plan.Platform)
	c := &reports.Card{Tool: "qwb", Version: j.Catalog.Version, Base: cmp.Or(b.Base, filepath.Base(p.Path)), Platform: p.Plan.Platform,
		Engine: e.Name, Format: r.Format, Profile: cmp.Or(r.Profile, p.Plan.Profile), Share: r.IntegerShare,
		Model: reports.CardFile{Name: filepath.Base(p.Path), SHA256: p.Digest},
		Data: reports.CardData{Paths: p.Plan.Data.Paths, SHA256: p.Plan.Data.Hash, Samples: p.Plan.Samples,
			Synthetic: p.Plan.Data.Synthetic}}
	if info, err := fs.Stat(j.Files(), p.Path); err == nil {
		c.Model.Bytes = info.Size()
	}
	var err error
	if c.Plan, err = p.Plan.Hash(); err != nil {
		return nil, err
	}
	for _, w := range out.Written() {
		c.Files = append(c.Files, reports.CardFile{Name: w.Name, SHA256: w.SHA256, Bytes: w.Bytes})
	}
	if text, err := json.Marshal(p.Plan.Preprocess); err == nil && string(text) != "{}" {
		c.Data.Preprocess = string(text)
	}
	if c.Verified = "The integers were not verified."; r.Verification != nil {
		c.Verified = verifiedWords(r)
	}
	if p.Plan.Options == nil {
		list, err := planning.InForce(p)
		if err != nil {
			return nil, err
		}
		for i := range list {
			c.Decisions = append(c.Decisions, list[i].Text())
		}
	}
	g := in.Model.Graph
	c.Inputs, c.Outputs = typesOf(g, g.Inputs), typesOf(g, g.Outputs)
	c.Outcomes = cardOutcomes(journal.Known(j))
	for _, w := range slices.Concat(p.Plan.Warnings, r.Warnings) {
		c.Warnings = append(c.Warnings, w.String())
	}
	return c, nil
}

// verifiedWords says how an export was verified and read back.
func verifiedWords(r *Result) string {
	v := r.Verification
	text := fmt.Sprintf("Integers %s on %s of %s data, profile %s, backend %s", v.Verdict, plain.Count(v.Samples, "sample"),
		cmp.Or(v.Data, plan.RealData), v.Profile, v.Backend)
	if !v.EngineKnown {
		text += " (whether the engine computes so is not known)"
	}
	if r.ReadBack != nil {
		text += "; read back: " + r.ReadBack.String()
	}
	return text + "."
}

// typesOf writes the types of values that are no constants.
func typesOf(g *graph.Graph, ids []graph.ValueID) (list []string) {
	for _, id := range ids {
		if v := g.Value(id); v.Const == nil {
			list = append(list, fmt.Sprintf("%s: %s%s", v.Name, v.DType, v.Shape))
		}
	}
	return list
}

// measuring are the commands whose outcomes are figures about a plan.
var measuring = []string{"eval", "analyze", "compare", "verify", "certify", "gate"}

// cardOutcomes are the last outcome of each command on each data.
func cardOutcomes(known []journal.Outcome) (list []reports.CardOutcome) {
	for i := range known {
		o := &known[i]
		if !slices.Contains(measuring, o.Command) {
			continue
		}
		var c reports.CardOutcome
		c.Command, c.Text = o.Command, o.Text("data", "file", "sha256")
		o.Each(func(f *journal.Figure) {
			if x, ok := f.Number(); ok {
				c.Figures = append(c.Figures, reports.CardFigure{Name: f.Name, Value: x, Error: f.Error})
			} else if paths, ok := f.Value.([]any); ok && f.Name == "data" {
				c.Data = strings.TrimSpace(fmt.Sprintln(paths...))
			}
		})
		list = slices.DeleteFunc(list, func(was reports.CardOutcome) bool { return was.Command == c.Command && was.Data == c.Data })
		list = append(list, c)
	}
	return list
}
