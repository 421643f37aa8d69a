package certify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/quantizer/plan"
)

// RecheckOptions are the arguments of verify-certificate. Files that are not named are where the certificate says, relative to its folder.
type RecheckOptions struct {
	Certificate string
	Root        string // the folder that the certificate's paths are relative to; empty: its own
	Plan        string
	Model       string
	Data        []string
	Labels      string
	Keys        []Key // each has to have signed the certificate's envelope
	Threads     int
}

// RecheckResult is what verify-certificate --json prints.
type RecheckResult struct {
	Certificate string    `json:"certificate"`
	Holds       bool      `json:"holds"`
	Arithmetic  [2]string `json:"arithmetic"` // recorded, here
	Checks      []Recheck `json:"checks"`
	Seconds     float64   `json:"seconds"`
}

// Verdicts of a Recheck.
const (
	RecheckEqual     = "equal"
	RecheckWithin    = "within" // a stated bound: floats are those of another class of processors
	RecheckDifferent = "different"
	RecheckSkipped   = "skipped" // cannot be derived here
)

// Recheck is one thing that a certificate says.
type Recheck struct {
	What     string `json:"what"`
	Verdict  string `json:"verdict"`
	Recorded string `json:"recorded,omitempty"`
	Found    string `json:"found,omitempty"`
	Note     string `json:"note,omitempty"`
}

// Bounds between classes of processors, whose floats differ in their last bits. A value at the border of two integers then goes to the
// other one, which moves the outputs a little: see docs/gate.md for what was measured.
const (
	boundClasses = 0.02 // of the samples may have another class, and two in any case
	boundNSR     = 0.02 // relative, of the mean
)

// recheck derives a certificate again.
type recheck struct {
	*open.Job
	o   RecheckOptions
	c   *Certificate
	res *RecheckResult
}

func (r *recheck) say(what, verdict, recorded, found, note string) {
	r.res.Checks = append(r.res.Checks, Recheck{what, verdict, recorded, found, note})
}

// same compares two texts.
func (r *recheck) same(what, recorded, found, note string) bool {
	if recorded == found {
		r.say(what, RecheckEqual, recorded, "", "")
		return true
	}
	r.say(what, RecheckDifferent, recorded, found, note)
	return false
}

// at is where a file of the certificate is.
func (r *recheck) at(path string) string {
	if r.o.Root != "" {
		return resolved(filepath.Join(r.o.Root, "certificate"), path)
	}
	return resolved(r.o.Certificate, path)
}

// Verify derives everything again that a certificate says. A file that is not there is an error that says how to name it.
func Verify(ctx context.Context, j *open.Job, o RecheckOptions) (*RecheckResult, error) {
	elapsed := j.Stopwatch()
	opened, err := openCertificate(j, o.Certificate)
	if opened == nil {
		return nil, err
	}
	c := opened.Certificate
	r := &recheck{Job: j, o: o, c: c, res: &RecheckResult{Certificate: o.Certificate}}
	switch {
	case errors.Is(err, errSeal), errors.Is(err, errSubjects):
		r.say("certificate", RecheckDifferent, c.SHA256, "", err.Error())
	case err != nil:
		return nil, err
	default:
		r.say("certificate", RecheckEqual, c.SHA256, "", "")
		r.signatures(opened)
	}
	if err := r.res.err(); err != nil {
		return r.res, err // what it says is worth nothing
	}
	r.res.Arithmetic = [2]string{c.Arithmetic, arithmeticHere()}
	if c.Tool.Version != j.Catalog.Version {
		r.say("qwb", RecheckSkipped, c.Tool.Version, j.Catalog.Version, "another version: what it computes may differ")
	}
	same, err := r.files()
	if err == nil && same {
		err = r.figures(ctx)
	}
	if err != nil {
		return nil, err
	}
	if !same {
		r.say("figures, integers", RecheckSkipped, "", "", "not derived: they are those of other files")
	}
	r.res.Holds = !slices.ContainsFunc(r.res.Checks, func(c Recheck) bool { return c.Verdict == RecheckDifferent })
	r.res.Seconds = elapsed()
	return r.res, r.res.err()
}

// signatures holds the envelope's against the keys.
func (r *recheck) signatures(o *opened) {
	if n := len(o.signatures); n > 0 && len(r.o.Keys) == 0 {
		r.say("signatures", RecheckSkipped, plain.Count(n, "signature"), "", "not checked: --key names the public key of who should have signed")
	}
	for _, key := range r.o.Keys {
		if o.signedBy(key) {
			r.say("signature by "+key.Name, RecheckEqual, "", "", "made with this key")
		} else {
			r.say("signature by "+key.Name, RecheckDifferent, "", "",
				fmt.Sprintf("none of %s is by this key", plain.Count(len(o.signatures), "signature")))
		}
	}
}

// err names what differs.
func (r *RecheckResult) err() error {
	var first *Recheck
	n := 0
	for i := range r.Checks {
		if c := &r.Checks[i]; c.Verdict == RecheckDifferent {
			if n++; first == nil {
				first = c
			}
		}
	}
	if first == nil {
		return nil
	}
	text := first.What + " differs"
	if first.Note != "" {
		text += ": " + first.Note
	} else if first.Recorded != "" {
		text += fmt.Sprintf(": %s, the certificate says %s", first.Found, first.Recorded)
	}
	if n > 1 {
		text += fmt.Sprintf(" (and %d more)", n-1)
	}
	return fault.Checkf("%s: %s", r.Certificate, text)
}

func (r *recheck) planFile() string  { return cmp.Or(r.o.Plan, r.at(r.c.Plan.Path)) }
func (r *recheck) modelFile() string { return cmp.Or(r.o.Model, r.at(r.c.Model.Path)) }

// plan compares the plan's file: first what it decides, then any other byte.
func (r *recheck) plan() (bool, error) {
	name := r.planFile()
	raw, err := r.bytesAt("plan", name, "--plan")
	if err != nil {
		return false, err
	}
	p, err := plan.Parse(name, raw)
	if err != nil {
		r.say("plan "+name, RecheckDifferent, r.c.Plan.SHA256, "", "it cannot be read any more: "+fault.OneLine(err))
		return false, nil
	}
	hash, err := p.Hash()
	if err != nil {
		return false, err
	}
	if !r.same("plan "+name, r.c.Plan.SHA256, hash, "") {
		return false, nil
	}
	if edited, err := p.Edited(); err != nil || edited {
		r.say("plan "+name, RecheckDifferent, r.c.Plan.Text, "", "its nodes_sha256 is not that of its numbers")
		return false, err
	}
	return r.same("text of the plan", r.c.Plan.Text, planText(raw, p), "other reasons, paths, warnings or layout than when it was "+
		"certified; its decisions and numbers are the same"), nil
}
