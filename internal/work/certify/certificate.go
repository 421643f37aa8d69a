package certify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/internal/strictjson"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
	"qwb/quantizer/plan"
)

// What a certificate file says that it is.
const (
	certificateFormat  = "qwb certificate"
	certificateVersion = 1
	maxCertificate     = 1 << 28 // bytes
)

// Certificate is a record of what a plan was measured to be: everything by hash that the figures follow from, the figures, and enough of
// each sample to say which one gives something else. VerifyCertificate derives all of it again.
type Certificate struct {
	Format     string `json:"format"`
	Version    int    `json:"version"`
	Tool       Tool   `json:"tool"`
	Arithmetic string `json:"arithmetic"` // ArithmeticFused or ArithmeticSeparate
	Platform   string `json:"platform"`
	Target     string `json:"target"` // sha256
	// Paths are relative to the certificate's folder, with forward slashes. Model and Imported have the digest of the model, external data
	// included, the others that of the file.
	Model    plan.File     `json:"model"`
	Imported *plan.File    `json:"imported,omitempty"`
	Plan     CertifiedPlan `json:"plan"`
	Overlay  *plan.File    `json:"overlay,omitempty"`
	Data     CertifiedData `json:"data"`

	Figures       CertifiedFigures `json:"figures"`
	Verifications []Certified      `json:"verifications"`
	Exports       []CertifiedFile  `json:"exports,omitempty"`
	// Samples has a row for each: SHA-256 of what the network is fed with (the first 16 digits), label, class by float, class by the plan (-1
	// where there is none), error.
	Samples []string `json:"samples"`
	// SHA256 is of the certificate with nothing here.
	SHA256 string `json:"sha256"`
}

// Tool is what wrote a certificate.
type Tool struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	SHA256   string `json:"sha256,omitempty"` // of the program's file
}

// CertifiedPlan is a plan in a certificate.
type CertifiedPlan struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // of inputs, decisions and numbers
	// Text is the SHA-256 of the file without the outcome of its last verification and what was undone.
	Text string `json:"text_sha256"`
}

// CertifiedData is what the figures were measured on.
type CertifiedData struct {
	Paths       []string        `json:"paths"`
	Preprocess  plan.Preprocess `json:"preprocess"`
	Samples     int             `json:"samples"` // that were asked for; 0: all
	Seed        uint64          `json:"seed"`
	Labels      *plan.File      `json:"labels,omitempty"` // a file, or a folder by the names and hashes in it
	LabelOffset int             `json:"label_offset,omitempty"`
	Alphabet    *plan.File      `json:"alphabet,omitempty"` // of a metric of texts
	Outputs     []string        `json:"outputs,omitempty"`  // that the metric reads; all as they are where none is named
	Hash        string          `json:"hash"`               // of all samples, as in a plan
	// Seen is how many of the samples the plan was calibrated on; -1 where its statistics are not there to tell.
	Seen int `json:"seen"`
}

// CertifiedFigures are what the plan's simulation was measured to do to the network.
type CertifiedFigures struct {
	Samples   int      `json:"samples"`
	Metric    string   `json:"metric,omitempty"`
	Agreement bool     `json:"agreement,omitempty"` // there are no labels: what float answers counts as right
	Percent   bool     `json:"percent,omitempty"`   // the drop is in percentage points
	Score     *float64 `json:"score,omitempty"`
	Float     *float64 `json:"float,omitempty"` // score of the float network
	Drop      *float64 `json:"drop,omitempty"`
	DropError *float64 `json:"drop_error,omitempty"`
	Flips     *int     `json:"flips,omitempty"` // classes other than float's
	Centred   bool     `json:"centred"`
	// Mismatches says that no output is float: NSR is the share of elements that differ.
	Mismatches bool     `json:"mismatches,omitempty"`
	NSR        float64  `json:"nsr"`
	NSRError   *float64 `json:"nsr_error,omitempty"`
	// Worst is the part of an output that the NSR is of; empty where it is of a whole output. Slices are the parts that count.
	Worst  string           `json:"worst_slice,omitempty"`
	Slices []CertifiedSlice `json:"slices,omitempty"`
	// Headlines say what counts more than the figures; see analysis.Headlines.
	Headlines []string `json:"headlines,omitempty"`
}

// CertifiedSlice is an analysis.SliceError of a part that counts, without what is null.
type CertifiedSlice struct {
	Name     string   `json:"name"`
	Output   string   `json:"output"`
	Axis     int      `json:"axis"`
	From     int      `json:"from"`
	To       int      `json:"to"`
	Period   int      `json:"period,omitempty"`
	NSR      float64  `json:"nsr"`
	NSRError *float64 `json:"nsr_error,omitempty"`
	Levels   int      `json:"levels"`
	Finding  string   `json:"finding,omitempty"`
	Part     bool     `json:"part,omitempty"`
}

// certifiedSlices are the parts that count.
func certifiedSlices(list []analysis.SliceError) (out []CertifiedSlice) {
	for _, s := range list {
		if s.Judged {
			out = append(out, CertifiedSlice{s.Name, s.Output, s.Axis, s.From, s.To, s.Period, s.NSR, s.NSRError, s.Levels, s.Finding, s.Part})
		}
	}
	return out
}

// errors are the parts as they were measured.
func (f *CertifiedFigures) errors() (out []analysis.SliceError) {
	for _, s := range f.Slices {
		out = append(out, analysis.SliceError{Name: s.Name, Output: s.Output, Axis: s.Axis, From: s.From, To: s.To, Period: s.Period, NSR: s.NSR,
			NSRError: s.NSRError, Levels: s.Levels,
			Finding: s.Finding, Signal: s.Finding == "", Judged: true, Part: s.Part})
	}
	return out
}

// Certified is a verification in a certificate.
type Certified struct {
	Profile   string           `json:"profile"`
	Backend   string           `json:"backend"`
	Samples   int              `json:"samples"`
	Verdict   string           `json:"verdict"`
	Compared  int64            `json:"integers_compared"`
	Different int64            `json:"integers_different"`
	Ties      int64            `json:"ties"`
	Digest    *analysis.Digest `json:"digest"`
}

// CertifiedFile is a file that was exported from the plan.
type CertifiedFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// Export is the name of the format whose defaults give this file from the plan; empty where none does.
	Export string `json:"format,omitempty"`
	// Verification is what the file says of itself, where a format gave it; nil in certificates of before it was kept: the plan's.
	Verification *plan.Verification `json:"verification,omitempty"`
	// Parts are the other files of the export, which belong to this one: the weights of a network, for one.
	Parts []plan.File `json:"parts,omitempty"`
}

// files are all files of the export, the named one first.
func (f *CertifiedFile) files() []plan.File {
	return append([]plan.File{{Path: f.Path, SHA256: f.SHA256}}, f.Parts...)
}

// Classes of processors by the arithmetic of floats; see docs/numerics.md.
const (
	ArithmeticFused    = "fused"    // multiplication and addition with one rounding
	ArithmeticSeparate = "separate" // with two
)

// arithmeticHere is the class of this processor.
func arithmeticHere() string {
	if kernels.Select(cpu.Detect()).Arith() == ref.FMA32 {
		return ArithmeticFused
	}
	return ArithmeticSeparate
}

// SealCertificate returns the file of a certificate, with the hash of its content.
func SealCertificate(c *Certificate) ([]byte, error) {
	sealed := *c
	sealed.SHA256 = ""
	b, err := strictjson.Indented(&sealed)
	if err != nil {
		return nil, err
	}
	sealed.SHA256 = store.Sum(b)
	return strictjson.Indented(&sealed)
}

// errSeal is about a certificate that is not what was written.
var errSeal = errors.New("its content was changed: it is not what its sha256 says")

// readCertificate reads a certificate, in any form. One whose content is not that of its own hash, or not what the statement around it is
// about, is returned with errSeal or errSubjects.
func readCertificate(j *open.Job, name string) (*Certificate, error) {
	o, err := openCertificate(j, name)
	if o == nil {
		return nil, err
	}
	return o.Certificate, err
}

// openCertificate is readCertificate with what stands around it.
func openCertificate(j *open.Job, name string) (*opened, error) {
	b, err := store.ReadFile(j.Files(), name, maxCertificate)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	o, err := unwrap(name, b)
	if errors.Is(err, errOther) {
		return nil, fmt.Errorf("%s: %w", name, err)
	} else if err != nil {
		return nil, err
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(o.text, &head); err != nil || head.Version != certificateVersion {
		return nil, fmt.Errorf("%s: a certificate of version %d: this qwb reads version %d", name, head.Version, certificateVersion)
	}
	o.Certificate = &Certificate{}
	if err := strictjson.Decode(name, o.text, o.Certificate); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	want, err := SealCertificate(o.Certificate)
	if err != nil {
		return nil, &fault.FileError{Stage: "certificate", File: name, Err: err}
	}
	switch {
	case o.statement == nil && !bytes.Equal(o.text, want), !sameJSON(o.text, want):
		return o, errSeal
	case o.statement != nil && !o.statement.holds(o.Certificate):
		return o, errSubjects
	}
	return o, nil
}

// sameJSON compares two texts but for the space between their words.
func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// relativeTo writes paths as a file refers to them.
func relativeTo(file string, paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		if out[i] = p; !open.IsSynthetic(p) {
			out[i] = plan.Relative(file, p)
		}
	}
	slices.Sort(out)
	return out
}

// resolved is where a path lies that a file refers to.
func resolved(file, path string) string {
	if open.IsSynthetic(path) {
		return path
	}
	return plan.Resolve(file, path)
}

// data is how the samples are opened and scored that the figures were measured on. at says where a path lies.
func (c *Certificate) data(at func(path string) string) open.DataOptions {
	d := &c.Data
	o := open.DataOptions{Samples: d.Samples, Seed: d.Seed, Stored: &d.Preprocess, LabelOffset: d.LabelOffset}
	for _, path := range d.Paths {
		o.Paths = append(o.Paths, at(path))
	}
	if d.Labels != nil {
		o.Labels = at(d.Labels.Path)
	}
	if d.Alphabet != nil {
		o.Metric.Alphabet = at(d.Alphabet.Path)
	}
	if c.Figures.Metric != "" {
		o.Metric.Names, o.Metric.Outputs = []string{c.Figures.Metric}, d.Outputs
	}
	return o
}

// planText is the SHA-256 of a plan's file without the outcome of its last verification and what was undone: other commands write these.
// Any other byte counts.
func planText(raw []byte, p *plan.Plan) string {
	if p != nil {
		if b, err := p.Encode(); err == nil && bytes.Equal(b, raw) {
			q := *p
			q.Verification, q.Redo = nil, nil
			if b, err := q.Encode(); err == nil {
				return store.Sum(b)
			}
		}
	}
	return store.Sum(raw)
}

// sampleRow is a sample in a certificate.
func sampleRow(s analysis.SampleOf, float, class int, loss float64) string {
	return fmt.Sprintf("%s %d %d %d %.4g", sampleName(s), s.Label, float, class, loss)
}

// sampleName is what a certificate knows a sample by.
func sampleName(s analysis.SampleOf) string { return fmt.Sprintf("%x", s.Hash[:8]) }

// integersOf is what checks of a verification are called.
func integersOf(v *Certified) string {
	return fmt.Sprintf("integers, profile %s, backend %s", v.Profile, v.Backend)
}
