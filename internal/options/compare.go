package options

import (
	"slices"

	"qwb"
	"qwb/internal/work/certify"
)

// Compare are the options of compare.
type Compare struct {
	qwb.CompareOptions
	Depth *int // samples on which operators are compared; nil: qwb.CompareLayers
	All   bool
	JSON  bool
}

func (o *Compare) Table(c *qwb.Catalog) Table {
	return slices.Concat(Data(&o.Data), Metric(&o.Data, "output", false), compared(c, &o.CompareOptions),
		Table{
			{Name: "layers", At: &o.Depth, Default: qwb.CompareLayers, Job: true, Field: &Field{Label: "Samples for the error at every operator",
				Value: qwb.CompareLayers,
				Doc:   "0: operators are not compared."},
				Help: "number of samples on which the error at every operator of plans is compared (0: none)"},
			{Name: "all", At: &o.All, Help: "print every operator (default: those that differ most)"},
		},
		Slices(&o.Data), Threads(&o.Threads, &o.Data.Threads), Budget(&o.Data.Budget), JSON(&o.JSON))
}

// Check settles how many samples operators are compared on, and holds the options against each other.
func (o *Compare) Check(c *qwb.Catalog) error {
	if o.Layers = qwb.CompareLayers; o.Depth != nil {
		o.Layers = *o.Depth
	}
	return checkCompared(c, &o.CompareOptions)
}

// compared are the rows of commands that run candidates.
func compared(c *qwb.Catalog, o *qwb.CompareOptions) Table {
	return slices.Concat(
		Table{
			{Name: "float", At: &o.Float, Job: true,
				Help: "float `MODEL` to measure errors against (default: that of the first plan or float model)"},
			{Name: "mode", At: &o.Mode, Default: qwb.ModeSim, Job: true, Field: &Field{Label: "Plans run", Type: "select", Value: qwb.ModeSim,
				Choices: []Choice{{qwb.ModeSim, "simulated"}, {qwb.ModeInt8, "on integers"}}}, Values: modes,
				Help: "how plans run: sim (simulated INT8) or int8 (the integer program)"},
		},
		Profile(&o.Profile, "arithmetic profile of --mode int8 (default: the target's): "), Backend(c, &o.Backend, "backend of --mode int8: "))
}

func checkCompared(c *qwb.Catalog, o *qwb.CompareOptions) error {
	switch {
	case o.Mode != "" && o.Mode != qwb.ModeSim && o.Mode != qwb.ModeInt8:
		return qwb.Usagef("unknown --mode %q: sim or int8", o.Mode)
	case o.Mode != qwb.ModeInt8 && o.Profile != "":
		return qwb.Usagef("--profile is for --mode int8 only")
	case o.Backend == "": // of a job: the usual one
		return nil
	}
	return CheckBackend(c, o.Backend)
}

// Gate are the options of gate.
type Gate struct {
	qwb.GateOptions
	JUnit, Markdown, SARIF string
	JSON                   bool
}

func (o *Gate) Table(c *qwb.Catalog) Table {
	d := &o.Run.Data
	return slices.Concat(Data(d), Metric(d, "output", false), compared(c, &o.Run),
		Table{
			{Name: "max-drop", At: &o.MaxDrop, Help: "largest drop of the score: percentage points (pp) of metrics that are shares"},
			{Name: "max-nsr", See: "gate.md", At: &o.MaxNSR, Help: "largest NSR against float, for example 0.01"},
			{Name: "slice", See: "gate.md", At: &o.Slice,
				Help: "with --max-nsr: the limit is on this part of an output: an input of its last Concat, or one of --slices (default: the worst " +
					"part)"},
			{Name: "max-flips", See: "gate.md", At: &o.MaxFlips, Help: "largest percentage of samples whose class changed"},
			{Name: "strict", At: &o.Strict, Help: "nothing above a limit passes, be it within noise or not"},
			{Name: "verified", See: "gate.md", At: &o.Verified,
				Help: "the integers have to be verified as an export asks: a weaker verification, or none, fails"},
			{Name: "junit", At: &o.JUnit, Help: "write the outcome as JUnit XML to this `FILE`"},
			{Name: "markdown", At: &o.Markdown, Help: "write the outcome as Markdown to this `FILE`"},
			{Name: "sarif", See: "gate.md", At: &o.SARIF, Help: "write what did not pass as SARIF 2.1.0 to this `FILE`"},
		},
		Slices(d), Threads(&o.Run.Threads, &d.Threads), Budget(&d.Budget), JSON(&o.JSON))
}

// Check holds the options against each other.
func (o *Gate) Check(c *qwb.Catalog) error { return checkCompared(c, &o.Run) }

// Certify are the options of certify.
type Certify struct {
	qwb.CertifyOptions
	JSON bool
}

func (o *Certify) Table(c *qwb.Catalog) Table {
	return slices.Concat(Data(&o.Data), Metric(&o.Data, "metric-output", false), Slices(&o.Data),
		Table{
			{Name: "backend", At: (*List)(&o.Backends), Values: func() []string { return Backends(c) },
				Help: "backends that are verified (default: " + UsualBackend(c) + "): " + words(Backends(c))},
			{Name: "profile", At: (*List)(&o.Profiles), Values: Profiles,
				Help: "arithmetic profiles that are verified (default: the target's): " + words(Profiles())},
			{Name: "export", At: &o.Exports, Help: "`FILE` that was exported from the plan; may be repeated"},
			{Name: "form", See: "certificate.md", At: &o.Form, Default: certify.FormCertificate, Values: certify.Forms,
				Help: "certificate, statement (in-toto, about the files of the exports) or envelope (DSSE, of that statement, to be signed)"},
		},
		Output(&o.Out, "the certificate to write"), Threads(&o.Threads, &o.Data.Threads), Budget(&o.Data.Budget), JSON(&o.JSON))
}

// Recheck are the options of verify-certificate.
type Recheck struct {
	qwb.RecheckOptions
	KeyFiles []string
	JSON     bool
}

func (o *Recheck) Table(*qwb.Catalog) Table {
	return slices.Concat(
		Table{
			{Name: "root", At: &o.Root, Help: "`FOLDER` that the certificate's paths are relative to (default: the certificate's)"},
			{Name: "plan", At: &o.Plan, Help: "where the `PLAN` is"},
			{Name: "model", At: &o.Model, Help: "where the `MODEL` is"},
			{Name: "data", At: &o.Data, Help: "where the data are, a `PATH` for each that was certified"},
			{Name: "labels", At: &o.Labels, Help: "where the labels are"},
			{Name: "key", See: "certificate.md", At: &o.KeyFiles,
				Help: "`FILE` (PEM) of the public key of somebody who has to have signed the envelope; may be repeated"},
		},
		Threads(&o.Threads), JSON(&o.JSON))
}

// Replace are the options of replace.
type Replace struct {
	qwb.ReplaceOptions
	JSON bool
}

func (o *Replace) Table(c *qwb.Catalog) Table {
	return slices.Concat(Data(&o.Data), Metric(&o.Data, "metric-output", false),
		Platform(c, &o.Platform, "platform, or file of one, for which both models are quantized"),
		Table{{Name: "nodes", At: &o.Nodes,
			Help: "`SELECTOR` of the nodes whose activations are meant, by the last node of each; may be repeated (default: all)"}},
		Output(&o.Out, "file to write the changed model to"), Threads(&o.Threads, &o.Data.Threads), Budget(&o.Memory), JSON(&o.JSON))
}
